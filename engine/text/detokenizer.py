"""Turn token ids into text, incrementally: a code point is released when its last byte has come, never before.

Two ways. Tokenizers whose decoder is byte-level, or sentencepiece with byte fallback, give exact bytes for every token,
and a UTF-8 decoder does the rest. For any other, the text of a growing window of tokens is decoded again at each step.

Not covered: where a byte-fallback tokenizer's bytes are not valid UTF-8, `tokenizer.decode` writes one U+FFFD for each
byte of the whole run, this decoder one for each malformed part; waiting for the end of the run would stop the stream.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import Any, Protocol

_REPLACEMENT = "\ufffd"


class TextStream(Protocol):
    """Decodes one sequence. `feed` returns the text that became final with a token, `close` the rest."""

    def feed(self, token_id: int) -> str: ...

    def close(self, *, cut: bool = False) -> str: ...


class Detokenizer:
    """Decodes tokens of one tokenizer; `stream()` opens a sequence. Used by the engine thread alone."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._to_bytes, self._strip = _byte_decoder(tokenizer)
        self._added = {i: token.content for i, token in getattr(tokenizer, "added_tokens_decoder", {}).items()}
        self._hidden = frozenset(
            i for i, token in getattr(tokenizer, "added_tokens_decoder", {}).items() if token.special
        )
        self._bytes: dict[int, bytes] = {}
        self._texts: dict[int, str | None] = {}

    def stream(self) -> TextStream:
        return _WindowStream(self) if self._to_bytes is None else _ByteStream(self, self._strip)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token, possibly a part of a code point; special tokens are spelled out. Those of
        sentencepiece that were added are read as its pieces: Gemma's run of two spaces is added as `▁▁`."""
        found = self._bytes.get(token_id)
        if found is None:
            found = self._bytes[token_id] = self._spell(token_id)
        return found

    def token_text(self, token_id: int) -> str:
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def whole_text(self, token_id: int) -> str | None:
        """Return the text a token adds after a complete code point; None if it ends within a code point."""
        try:
            return self._texts[token_id]
        except KeyError:
            found = self._texts[token_id] = self._whole_text(token_id)
            return found

    def _whole_text(self, token_id: int) -> str | None:
        try:
            return "" if self.is_hidden(token_id) else self.token_bytes(token_id).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def is_hidden(self, token_id: int) -> bool:
        """Return whether a token is special, and so left out of text."""
        return token_id in self._hidden

    def decode(self, token_ids: list[int]) -> str:
        text = self._tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _spell(self, token_id: int) -> bytes:
        if token_id in self._added and (token_id in self._hidden or self._to_bytes is not _sentencepiece):
            return str(self._added[token_id]).encode()
        token = self._added.get(token_id) or self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return b""
        return self._to_bytes(token) if self._to_bytes else self.decode([token_id]).encode()


class _ByteStream:
    """Same as decoding all bytes at once with malformed parts replaced, less `strip` leading spaces."""

    __slots__ = ("_decoder", "_is_whole", "_of", "_strip")

    def __init__(self, detokenizer: Detokenizer, strip: int) -> None:
        self._of = detokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = strip
        self._is_whole = True
        """Whether the text ends with a whole code point, so that the decoder holds no bytes."""

    def feed(self, token_id: int) -> str:
        if self._is_whole and (text := self._of.whole_text(token_id)) is not None:
            return self._stripped(text) if self._strip else text
        if self._of.is_hidden(token_id):
            return ""
        text = self._stripped(self._decoder.decode(self._of.token_bytes(token_id)))
        self._is_whole = not self._decoder.getstate()[0]
        return text

    def close(self, *, cut: bool = False) -> str:
        return "" if cut else self._stripped(self._decoder.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            self._strip = self._strip - 1 if text[0] == " " else 0
            text = text[1:] if text[0] == " " else text
        return text


class _WindowStream:
    """For decoders whose text of a token depends on its neighbours: decodes a short window with and without the new
    tokens and releases the difference, unless it ends in an unfinished code point."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._of = detokenizer
        self._ids: list[int] = []
        self._start = 0
        self._done = 0

    def feed(self, token_id: int) -> str:
        self._ids.append(token_id)
        return self._advance(final=False)

    def close(self, *, cut: bool = False) -> str:
        rest = self._advance(final=True)
        return rest.rstrip(_REPLACEMENT) if cut else rest

    def _advance(self, *, final: bool) -> str:
        before = self._of.decode(self._ids[self._start : self._done])
        after = self._of.decode(self._ids[self._start :])
        if not final and (after.endswith(_REPLACEMENT) or len(after) <= len(before)):
            return ""
        self._start, self._done = self._done, len(self._ids)
        return after[len(before) :]


def _byte_decoder(tokenizer: Any) -> tuple[Callable[[str], bytes] | None, int]:
    """Return (function from token string to bytes, leading spaces to strip), or (None, 0) where bytes are unknown."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    if decoder is None:
        return None, 0
    steps = _steps(json.loads(decoder.__getstate__()))
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _byte_level, 0
    if set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip"} and "ByteFallback" in kinds:
        return _sentencepiece, sum(step["start"] for step in steps if step["type"] == "Strip")
    return None, 0


def _steps(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    return list(decoder["decoders"]) if decoder["type"] == "Sequence" else [decoder]


def _byte_alphabet() -> dict[str, int]:
    """Return the printable stand-ins that byte-level tokenizers write for the 256 bytes (the table of GPT-2)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {chr(byte): byte for byte in plain}
    return table | {chr(256 + n): byte for n, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    if all(char in _ALPHABET for char in token):
        return bytes(_ALPHABET[char] for char in token)
    return token.encode()


def _sentencepiece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
