"""Compute one model's layers in several processes of a machine (tensor parallel)."""
