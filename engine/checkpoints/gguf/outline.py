"""Read the configuration and the tokenizer of a GGUF file without a second look at its long lists.

`transformers` reads a configuration through the package `gguf`, which makes arrays of numpy of each text of a
vocabulary: ten seconds for 262,144 tokens, for the configuration and again for the tokenizer's class. It is given an
outline instead: all fields of the file, but of the tokenizer's lists only the beginning; and all names of tensors.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sluicegate.engine.checkpoints.gguf.files import GgufFile
from sluicegate.engine.checkpoints.gguf.header import GgufField

_TEXT, _F32 = 8, 0
_TOKENIZER = "tokenizer."
_TOKENS, _KINDS = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_USER_DEFINED = 4
_SPACE = "\u2581"
"""How sentencepiece spells a space."""
_MOST_ITEMS = 61
"""Items of a list of the tokenizer that an outline has."""


def config_of_file(file: GgufFile) -> Any:
    """Return the configuration that `transformers` makes of the file, and raise what that raises."""
    from transformers import AutoConfig

    with TemporaryDirectory(prefix="sluicegate-gguf-") as folder:
        (Path(folder) / file.path.name).write_bytes(outline(file))
        with _unwarned_of_ids():
            config = AutoConfig.from_pretrained(folder, gguf_file=file.path.name, trust_remote_code=False)
    config.name_or_path = str(file.path.parent)
    tokens = file.length(_TOKENS)
    if tokens > _MOST_ITEMS == config.vocab_size != file.field("vocab_size"):  # counted in the outline
        config.vocab_size = tokens
    return config


@contextmanager
def _unwarned_of_ids() -> Iterator[None]:
    """Drop warnings of the outline: most ids of special tokens lie beyond its few tokens. Ids beyond the file's are
    refused at load."""
    log = logging.getLogger("transformers.configuration_utils")
    log.addFilter(_is_no_doubt_of_an_id)
    try:
        yield
    finally:
        log.removeFilter(_is_no_doubt_of_an_id)


def _is_no_doubt_of_an_id(record: logging.LogRecord) -> bool:
    return "_token_id must be" not in str(record.msg)


def tokenizer_of_file(file: GgufFile, config: Any) -> Any:
    """Return the tokenizer that `transformers` makes of the file, and raise what that raises."""
    from transformers import TOKENIZER_MAPPING, AutoTokenizer, PreTrainedTokenizerFast

    place, name = file.path.parent, file.path.name
    kind = TOKENIZER_MAPPING.get(type(config), PreTrainedTokenizerFast)
    names_another = (place / "tokenizer_config.json").exists()
    if names_another or not issubclass(kind, PreTrainedTokenizerFast):
        made = AutoTokenizer.from_pretrained(place, gguf_file=name, trust_remote_code=False)
    else:
        made = kind.from_pretrained(place, gguf_file=name)
    _add_runs_of_spaces(made, file)
    return made


def _add_runs_of_spaces(tokenizer: Any, file: GgufFile) -> None:
    """Add the tokens of spaces that Gemma's files mark as user-defined: sentencepiece takes the longest of those before
    it merges anything. `transformers` looks for them as the file spells them, and they are respelled in its
    vocabulary; 34 spaces became 16 and 18, not 31 and 3."""
    from tokenizers import AddedToken

    kinds = file.value(_KINDS)
    if kinds is None or file.value("tokenizer.ggml.model") != "llama" or _USER_DEFINED not in kinds:
        return
    texts = file.value(_TOKENS)
    marked = (text for text, kind in zip(texts, kinds, strict=True) if kind == _USER_DEFINED)
    spelled = [text.replace(" ", _SPACE) for text in marked if text and not text.strip(" ")]
    vocab, added = tokenizer.get_vocab(), tokenizer.get_added_vocab()
    missing = [text for text in spelled if text in vocab and text not in added]
    tokenizer.add_tokens([AddedToken(text, normalized=True, special=False) for text in missing])


def outline(file: GgufFile) -> bytes:
    """Return a small GGUF file with the fields and the names of tensors of `file`; all tensors are one and the same
    number."""
    header = file.header
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(header.tensors), len(header.fields))]
    with file.path.open("rb") as read:
        for name, found in header.fields.items():
            begin, end = found.span
            read.seek(begin)
            if name.startswith(_TOKENIZER) and found.length > _MOST_ITEMS:
                parts.append(_beginning(read.read(found.items - begin), read.read(end - found.items), found))
            else:
                parts.append(read.read(end - begin))
    parts += [_text(name) + struct.pack("<IQIQ", 1, 1, _F32, 0) for name in header.tensors]
    head = b"".join(parts)
    return head + bytes(-len(head) % header.alignment + max(header.alignment, 4))


def _beginning(head: bytes, items: bytes, found: GgufField) -> bytes:
    """Return a list with its first items only; `head`: its name, types and count."""
    end = 0
    if found.types[1] == _TEXT:
        for _ in range(_MOST_ITEMS):
            (size,) = struct.unpack_from("<Q", items, end)
            end += 8 + size
    else:
        end = len(items) // found.length * _MOST_ITEMS
    return head[:-8] + struct.pack("<Q", _MOST_ITEMS) + items[:end]


def _text(text: str) -> bytes:
    said = text.encode("utf-8")
    return struct.pack("<Q", len(said)) + said
