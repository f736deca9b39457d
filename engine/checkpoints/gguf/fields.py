"""Check that the fields of a GGUF file from which a model and its tokenizer are made hold what their names say:
`transformers` leaves a field of another type out, takes a text as a list of letters, or fails somewhere in its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.engine.checkpoints.gguf.files import GgufFile
from sluicegate.plugins import ModelLoadError

_WHOLE, _REAL, _TEXT, _LIST = frozenset((0, 1, 2, 3, 4, 5, 10, 11)), frozenset((6, 12)), 8, 9
"""Types of values, as the file numbers them."""
_SIZES = (
    *("context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size"),
    *("attention.head_count", "attention.head_count_kv", "rope.dimension_count"),
)
_WITH_A_POINT = ("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon")
_NUMBERS = ("rope.freq_base", "rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor")
_TEXTS = ("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template")
_TOKENS = "tokenizer.ggml.tokens"
_LISTS: Mapping[str, frozenset[int]] = {
    _TOKENS: frozenset((_TEXT,)),
    "tokenizer.ggml.merges": frozenset((_TEXT,)),
    "tokenizer.ggml.scores": _REAL,
    "tokenizer.ggml.token_type": _WHOLE,
}
_ONE_A_TOKEN = ("tokenizer.ggml.scores", "tokenizer.ggml.token_type")
_NAMES = {_WHOLE: "whole numbers", _REAL: "numbers with a point", frozenset((_TEXT,)): "texts"}
_ENDS = ". Name the checkpoint that the file was made of, or convert it anew"


def refuse_mistyped(file: GgufFile) -> None:
    """Raise `ModelLoadError` with the first field of another type, size or length than its name asks for."""
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    architecture = _architecture(file)
    known = {name.replace("_", "").replace("-", "") for name in GGUF_CONFIG_MAPPING}
    if architecture.replace("_", "").replace("-", "") not in known:
        raise ModelLoadError(
            f"{file.where!r} is a model of the architecture {architecture!r}, which the installed transformers cannot "
            "read from GGUF files; name the checkpoint that the file was made of"
        )
    for name in _SIZES:
        _refuse_size(file, f"{architecture}.{name}")
    for name in _WITH_A_POINT:
        _refuse_number(file, f"{architecture}.{name}", _REAL, "a number with a point")
    for name in _NUMBERS:
        _refuse_number(file, f"{architecture}.{name}", _WHOLE | _REAL, "a number")
    for name in _TEXTS:
        if (types := file.types(name)) and types[0] != _TEXT:
            _refuse(file, name, "expected a text")
    for name, kinds in _LISTS.items():
        _refuse_list(file, name, kinds)


def _architecture(file: GgufFile) -> str:
    name = "general.architecture"
    if file.types(name) != (_TEXT,) or not file.value(name):
        if not file.types(name):
            raise ModelLoadError(f"{file.where!r} does not say its architecture ({name}){_ENDS}")
        _refuse(file, name, "expected the name of an architecture, such as llama")
    return str(file.value(name))


def _refuse_size(file: GgufFile, name: str) -> None:
    """Refuse a size that is no whole number above 0. Lists have one for each layer: models with such are refused where
    they are made, if they are not known."""
    types = file.types(name)
    if types[:1] == (_LIST,) and len(types) == 2 and types[1] in _WHOLE:
        return
    if types and (types[0] not in _WHOLE or not 0 < file.value(name) < 1 << 40):
        _refuse(file, name, "expected a whole number above 0")


def _refuse_number(file: GgufFile, name: str, kinds: frozenset[int], expected: str) -> None:
    types = file.types(name)
    if types and types[0] not in kinds:
        _refuse(file, name, f"expected {expected}")


def _refuse_list(file: GgufFile, name: str, kinds: frozenset[int]) -> None:
    types, count = file.types(name), file.length(name)
    if not types:
        return
    if types[0] != _LIST or (count and types[1] not in kinds) or (name == _TOKENS and not count):
        _refuse(file, name, f"expected a list of {_NAMES[kinds]}")
    if name in _ONE_A_TOKEN and count != (tokens := file.length(_TOKENS)):
        raise ModelLoadError(f"{file.where!r}: {name} has {count} items, and the file {tokens} tokens{_ENDS}")


def _refuse(file: GgufFile, name: str, expected: str) -> None:
    types = file.types(name)
    found: Any = f"a list of {file.length(name)} items" if types[0] == _LIST else repr(file.value(name))[:80]
    raise ModelLoadError(f"{file.where!r}: {name} is {found} (type {types[0]}); {expected}{_ENDS}")
