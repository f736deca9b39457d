"""Bound the tokens of a prompt by its bytes, and stop tokenising where no more can fit.

No token spans more than the longest of its vocabulary, so a text has at least `bytes / longest` tokens. That bound
is unknown where a tokenizer may drop or join text first (most normalizers, marks that swallow blanks). A long text
below the bound is counted in windows, until there are clearly more tokens than fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from sluicegate.plugins import ContextLengthExceeded, Message, Request, RequestError, Sampling, ServedModel

SHORT = 4096
"""Messages of at most this many characters are not checked: tokenising them is cheap."""
COMPOSED = 4
"""Most bytes that canonical composition turns into one: a letter with three accents."""
WINDOW_CHARS = 32_768
USUAL_CHARS = 8
"""More characters per token than any common text has."""
MAX_MARK_CHARS = 16_384
"""Most characters of all stop strings of a request, and of all its forbidden words."""
MAX_BIASES = 8192
SURE = 1.25
"""Windows split tokens, so a text is refused only above this many times the limit."""


class Lengths:
    """The longest tokens of tokenizers, each worked out once."""

    def __init__(self) -> None:
        self._longest: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def longest(self, tokenizer: Any) -> int:
        """Return the most bytes of text that one token may stand for; 0 = unknown."""
        found = self._longest.get(tokenizer)
        if found is None:
            found = self._longest[tokenizer] = longest_token(tokenizer)
        return found

    def room(self, model: ServedModel) -> int:
        """Return the number of bytes from which on no text fits `model`; 0 = unknown, or the model of another
        server."""
        return 0 if model.remote else model.context_length * self.longest(model.tokenizer)

    def check(self, messages: Iterable[Message], models: Collection[ServedModel]) -> None:
        """Check that the messages fit one of `models`. Raises `ContextLengthExceeded`. An assistant's messages do not
        count: templates leave out old thoughts."""
        chars = sum([len(message.content) for message in messages if message.role != "assistant"])
        if chars <= SHORT or not models or any(not 0 < self.room(model) <= chars for model in models):
            return
        roomiest = max(models, key=self.room)
        raise too_long(f"at least {-(-chars // self.longest(roomiest.tokenizer))}", roomiest, chars)

    def token_ids(
        self, text: str, model: ServedModel, *, special: bool, most: int | None = None, param: str = "messages"
    ) -> list[int]:
        """Return the tokens of `text`, with the tokenizer's special tokens around it where `special`. Raises
        `ContextLengthExceeded` for more than `most`, by default the context less one; little of a long text is
        tokenised then."""
        most = model.context_length - 1 if most is None else most
        if (found := self._more_than(most, text, model)) is not None:
            raise too_long(found, model, len(text), param)
        ids = encode(model.tokenizer, text, special=special)
        if len(ids) > most:
            raise too_long(str(len(ids)), model, len(text), param)
        return ids

    def _more_than(self, most: int, text: str, model: ServedModel) -> str | None:
        """Return, in words, how many tokens `text` has, if they exceed `most` for sure; None = tokenise it."""
        longest = self.longest(model.tokenizer) if len(text) > most else 0
        if 0 < (most + 1) * longest <= len(text):
            return f"at least {-(-len(text) // longest)}"
        if len(text) <= max(WINDOW_CHARS, USUAL_CHARS * most):
            return None
        counted = count_tokens(model.tokenizer, text, int(SURE * most))
        return f"more than {counted}" if counted > SURE * most else None


def check_sampling(sampling: Sampling) -> None:
    """Refuse stop strings, forbidden words or biases that would take long to look up: raises `RequestError`."""
    if not (sampling.bad_words or sampling.stop or sampling.logit_bias):
        return
    for name, texts in (("bad_words", sampling.bad_words), ("stop", sampling.stop)):
        if (chars := sum(map(len, texts))) > MAX_MARK_CHARS:
            raise RequestError(f"`{name}` has {chars} characters, at most {MAX_MARK_CHARS} are read", param=name)
    if len(sampling.logit_bias) > MAX_BIASES:
        raise RequestError(
            f"`logit_bias` has {len(sampling.logit_bias)} entries, at most {MAX_BIASES} are read", param="logit_bias"
        )


def size_of(request: Request) -> int:
    """Return about how many bytes are rendered and tokenised."""
    return request.nbytes or sum([len(message.content) for message in request.messages])


def too_long(tokens: str, model: ServedModel, chars: int, param: str = "messages") -> ContextLengthExceeded:
    return ContextLengthExceeded(
        f"the prompt has {tokens} tokens ({chars} characters), model {model.name!r} reads at most "
        f"{model.context_length} with the answer; shorten {'the texts' if param == 'input' else f'`{param}`'}",
        param=param,
    )


def encode(tokenizer: Any, text: str, *, special: bool) -> list[int]:
    """Return `tokenizer(text)["input_ids"]`, without the offsets and strings that a fast tokenizer makes besides: a
    quarter of the memory, half of the time, and the GIL is free meanwhile."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    plain = backend is not None and backend.truncation is None and backend.padding is None
    if not plain or len(text) <= SHORT or getattr(tokenizer, "split_special_tokens", False):
        found: list[int] = tokenizer(text, add_special_tokens=special)["input_ids"]
        return found
    ids: list[int] = backend.encode_batch_fast([text], add_special_tokens=special)[0].ids
    return ids


def count_tokens(tokenizer: Any, text: str, most: int) -> int:
    """Count the tokens of `text`, a few too many; stop soon after `most`."""
    counted = 0
    for at in range(0, len(text), WINDOW_CHARS):
        counted += len(encode(tokenizer, text[at : at + WINDOW_CHARS], special=False))
        if counted > most:
            break
    return counted


def longest_token(tokenizer: Any) -> int:
    """Return the bytes of text that one token may stand for; 0 where the tokenizer may shorten text first."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return 0
    facts: dict[str, Any] = orjson.loads(backend.to_str())
    composed = _composed(facts["normalizer"])
    swallows = any(token["lstrip"] or token["rstrip"] for token in facts["added_tokens"])
    if not composed or swallows or facts["model"].get("type") != "BPE" or not _keeps_bytes(facts["pre_tokenizer"]):
        return 0
    marks = {token["content"] for token in facts["added_tokens"]}
    words = max((len(word) for word in tokenizer.get_vocab() if word not in marks), default=0)  # a letter is a byte
    return composed * max(words, *(len(mark.encode()) for mark in marks), 1)


def _composed(normalizer: Mapping[str, Any] | None) -> int:
    if normalizer is None:
        return 1
    return COMPOSED if normalizer["type"] == "NFC" else 0


def _keeps_bytes(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Return whether every byte becomes a letter of some word."""
    if pre_tokenizer is None:
        return False
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    kept = all(
        step["type"] in ("ByteLevel", "Digits") or (step["type"] == "Split" and step["behavior"] != "Removed")
        for step in steps
    )
    return kept and any(step["type"] == "ByteLevel" for step in steps)
