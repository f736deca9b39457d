"""Refuse a tokenizer.json whose ids no model can have: the library that reads it keeps a place for every number up to
the largest, and ends the process where memory for them is lacking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sluicegate.plugins import ModelLoadError

_ROOM = 1 << 16
"""Ids that may lie beyond twice the vocabulary: of added tokens, as some checkpoints number them."""
_NAME = "tokenizer.json"


def refuse_strange_token_ids(folder: Path, vocab_size: int, where: str) -> None:
    """Raise `ModelLoadError` for tokens of `folder`'s tokenizer.json with ids that are no numbers or far beyond the
    vocabulary, and for two added tokens with one id. What else is wrong with it, its own library says."""
    if not (folder / _NAME).is_file():
        return
    try:
        said = json.loads((folder / _NAME).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(f"{where!r}: {_NAME} is no JSON that can be read ({error}); fetch it anew") from error
    tokens = list(_ids(said))
    most = 2 * max(vocab_size, len(tokens)) + _ROOM
    for token, found in tokens:
        if type(found) is not int or not 0 <= found < most:
            raise ModelLoadError(
                f"{where!r}: {_NAME} gives the token {str(token)[:40]!r} the id {str(found)[:40]}; expected a whole "
                f"number from 0, below {most:,}: the model knows {vocab_size:,} tokens. Correct it, or fetch it anew"
            )
    _refuse_repeated(said, where)


def _ids(said: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (token, id) of a vocabulary that is an object, and of added tokens."""
    model = said.get("model") if isinstance(said, dict) else None
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        yield from vocab.items()
    yield from _added(said)


def _added(said: Any) -> Iterator[tuple[Any, Any]]:
    added = said.get("added_tokens") if isinstance(said, dict) else None
    for one in added if isinstance(added, list) else []:
        if isinstance(one, dict):
            yield one.get("content"), one.get("id")


def _refuse_repeated(said: Any, where: str) -> None:
    seen: dict[Any, Any] = {}
    for token, found in _added(said):
        if seen.setdefault(found, token) != token:
            raise ModelLoadError(
                f"{where!r}: {_NAME} gives the id {found} to the added tokens {str(seen[found])[:40]!r} and "
                f"{str(token)[:40]!r}; expected an id of its own for each. Correct it, or fetch it anew"
            )
