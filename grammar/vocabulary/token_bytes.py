"""The bytes that each token of a `transformers` tokenizer stands for."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from sluicegate.plugins.errors import InvalidGrammar

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself, the rest for U+0100
    onwards."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(0x100 + i): b for i, b in enumerate(others)}


def _decoder_kinds(decoder: Any) -> list[dict[str, Any]]:
    if not decoder:
        return []
    if decoder["type"] == "Sequence":
        return [kind for part in decoder["decoders"] for kind in _decoder_kinds(part)]
    return [decoder]


def _byte_level(token: str) -> bytes:
    alphabet = byte_alphabet()
    if all(c in alphabet for c in token):
        return bytes(alphabet[c] for c in token)
    return token.encode()


def _sentence_piece(token: str, marks: list[str]) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(token)
    if byte:
        return bytes([int(byte.group(1), 16)])
    for mark in marks:
        token = token.replace(mark, " ")
    return token.encode()


def token_bytes(tokenizer: Any) -> list[bytes]:
    """Return one entry per token id; b"" for special tokens and for holes in the numbering.

    The tokenizer's own decoder tells them: `ByteLevel`, or any of `ByteFallback`, `Metaspace` and a `Replace` of the
    space mark. Raises `InvalidGrammar` for other decoders (word-piece joins tokens in ways that bytes cannot tell).
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InvalidGrammar(f"{type(tokenizer).__name__} is not a fast tokenizer; load it with use_fast=True")
    state = json.loads(backend.to_str())
    kinds = _decoder_kinds(state.get("decoder"))
    names = {kind["type"] for kind in kinds}
    marks = [kind.get("replacement", "▁") for kind in kinds if kind["type"] == "Metaspace"]
    marks += [
        kind["pattern"]["String"]
        for kind in kinds
        if kind["type"] == "Replace" and kind.get("content") == " " and "String" in kind["pattern"]
    ]
    if not ("ByteLevel" in names or "ByteFallback" in names or marks):
        raise InvalidGrammar(f"cannot tell the bytes of tokens decoded by {sorted(names) or 'nothing'}")
    added = {entry["id"]: entry for entry in state.get("added_tokens", [])}
    special = set(tokenizer.all_special_ids)
    vocabulary = tokenizer.get_vocab()
    words = [b""] * (max(vocabulary.values()) + 1)
    for token, number in vocabulary.items():
        if number in special or added.get(number, {}).get("special"):
            continue
        if "ByteLevel" not in names:  # its decoder reads added tokens as pieces: Gemma adds runs of spaces as `▁▁`
            words[number] = _sentence_piece(token, marks)
        else:
            words[number] = token.encode() if number in added else _byte_level(token)
    return words
