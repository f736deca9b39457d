"""A decoder's forward pass as one compiled program for CPUs: small-batch products, paged attention, and threads."""

from engine.cpu.decoder import Decoder, decoder_for

__all__ = ["Decoder", "decoder_for"]
