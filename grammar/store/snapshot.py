"""What is worked out for a vocabulary, as arrays: the order of its tokens, its slices, and the lexeme
states classified so far.

Kept under a name made of the vocabulary, of this package's own source and of the numpy that wrote it: whatever could
change the answer changes the name. What is read is checked once more, by shape and by range, for the compiled loops
that use it check nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.classification import automata
from sluicegate.grammar.classification.automata import RootClass
from sluicegate.grammar.store.folder import Arrays, Folder
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.slices import VocabularySlice, alphabets
from sluicegate.grammar.vocabulary.trie import FlatTrie, build_flat, is_in_order, without
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

log = logging.getLogger("sluicegate.grammar")
CLASSES_BYTES = 32 << 20
"""Most bytes kept of classified states, those used last."""
_DEEPEST = 1_000


class SnapshotMismatch(ValueError):
    """Arrays that are whole but do not fit together."""


def name_of(vocabulary: Vocabulary) -> str:
    """Return a name that is the same for equal vocabularies, as long as nobody changes the code that reads them."""
    digest = blake2b(
        f"{sys.byteorder} {np.__version__} {vocabulary.size} {vocabulary.eos_token_ids}".encode(), digest_size=16
    )
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    digest.update(vocabulary.spelled.sizes.data)
    digest.update(vocabulary.spelled.data.data)
    return f"vocabulary-{digest.hexdigest()}"


def restore(vocabulary: Vocabulary, folder: Folder) -> bool:
    """Put into `vocabulary` what `folder` holds for it; False where that is nothing."""
    name = name_of(vocabulary)
    arrays = folder.read(name)
    if arrays is None:
        return False
    try:
        trie = build_flat(vocabulary.spelled, _order(arrays, vocabulary))
        slices = tuple(_slice(arrays, i, text, kinds, trie, vocabulary) for i, (text, kinds) in enumerate(alphabets()))
        remainders = _words(arrays)
        punctuation = vocabulary.punctuation_of(remainders)
        classes = list(_classes(arrays, vocabulary, len(punctuation.all)))
    except (SnapshotMismatch, KeyError, IndexError, TypeError) as error:
        folder.discard(name, f"does not fit its vocabulary ({error})")
        return False
    vocabulary.restore(trie, slices, remainders, punctuation)
    for key, found in classes:
        automata.keep(vocabulary, key, found)
    return True


def keep(vocabulary: Vocabulary, folder: Folder) -> bool:
    """Write what is known of `vocabulary` now."""
    arrays: Arrays = {"order": vocabulary.trie.ids}
    arrays |= {f"slice{i}.row": part.row for i, part in enumerate(vocabulary.slices)}
    words = vocabulary.remainder_words
    arrays["remainders"] = np.frombuffer(b"".join(words), np.uint8)
    arrays["remainders.sizes"] = np.array([len(word) for word in words], np.int32)
    arrays |= _of_classes(vocabulary)
    return folder.write(name_of(vocabulary), arrays)


# --- tries ---


def _array(arrays: Arrays, name: str, kind: type[np.generic], size: int | None = None) -> npt.NDArray[Any]:
    found = arrays[name]
    if found.dtype != kind or found.ndim != 1 or (size is not None and found.size != size):
        raise SnapshotMismatch(f"{name} is {found.dtype}{list(found.shape)}")
    return found


def _within(name: str, found: npt.NDArray[Any], low: int, high: int) -> None:
    if found.size and (found.min() < low or found.max() >= high):
        raise SnapshotMismatch(f"{name} holds a number that is not from {low} to {high - 1}")


def _order(arrays: Arrays, vocabulary: Vocabulary) -> I32:
    """Return the tokens in the order of their bytes: to sort them takes longer than to make the trie."""
    found = _array(arrays, "order", np.int32)
    _within("order", found, 0, len(vocabulary.words))
    if not is_in_order(vocabulary.spelled, found):
        raise SnapshotMismatch("the tokens are not in order")
    return found


def _slice(
    arrays: Arrays, number: int, text: Any, kinds: int, trie: FlatTrie, vocabulary: Vocabulary
) -> VocabularySlice:
    row = _array(arrays, f"slice{number}.row", np.int32, vocabulary.row_words)
    count = int(np.unpackbits(row.view(np.uint8)).sum())
    return VocabularySlice(text, kinds, row, count, without(trie, row))


def _words(arrays: Arrays) -> list[bytes]:
    data, sizes = arrays["remainders"].tobytes(), _array(arrays, "remainders.sizes", np.int32)
    _within("remainders.sizes", sizes, 1, _DEEPEST + 1)
    if int(sizes.sum()) != len(data):
        raise SnapshotMismatch("remainders are cut off")
    ends = np.cumsum(sizes).tolist()
    return [data[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


# --- classes ---


def _of_classes(vocabulary: Vocabulary) -> Arrays:
    """Return the classes by the name of their state. Others, whose keys mean something in this process only, are left
    out."""
    kept: list[tuple[Any, RootClass]] = []
    size = 0
    for key, found in reversed(vocabulary.classes.items()):
        if isinstance(found, RootClass) and _number_of(key) is not None and _plain(found):
            size += automata.size_of(found)
            if size > CLASSES_BYTES:
                break
            kept.append((key, found))
    kept.reverse()
    rows = [found.row for _, found in kept if found.row is not None]
    endings = [found.endings[0] if found.endings else None for _, found in kept]
    parts: dict[str, list[I32]] = {
        "ids": [found.ids for _, found in kept],
        **{part: [NO_IDS if e is None else getattr(e, part) for e in endings] for part in _ENDING},
    }
    return {
        "classes.digest": np.frombuffer(b"".join(key[1] for key, _ in kept), np.uint8),
        "classes.number": np.array([_number_of(key) for key, _ in kept], np.int32).reshape(-1),
        "classes.quoted": np.array([key[0] for key, _ in kept], np.bool_),
        "classes.ends": np.array([end is not None for end in endings], np.bool_),
        "classes.has_row": np.array([found.row is not None for _, found in kept], np.bool_),
        "classes.rows": np.concatenate([*rows, NO_IDS]),
        **{f"classes.{name}": np.concatenate([*found, NO_IDS]) for name, found in parts.items()},
        **{f"classes.{name}.sizes": np.array([a.size for a in found], np.int32) for name, found in parts.items()},
    }


_ENDING = ("closers", "numbers", "tokens")


def _number_of(key: Any) -> int | None:
    """Return -1 for the name of a state, the number of the state beside the name of its automaton, None for other
    keys."""
    if not (isinstance(key, tuple) and isinstance(key[0], bool) and isinstance(key[1], bytes) and len(key[1]) == 16):
        return None
    if len(key) == 2:
        return -1
    return int(key[2]) if len(key) == 3 and isinstance(key[2], int) and not isinstance(key[2], bool) else None


def _plain(found: RootClass) -> bool:
    return len(found.endings) < 2 and all(ending.outcome == 0 for ending in found.endings)


def _classes(arrays: Arrays, vocabulary: Vocabulary, punctuation: int) -> Iterable[tuple[Any, RootClass]]:
    number = _array(arrays, "classes.number", np.int32)
    quoted, ends, has_row = (
        _array(arrays, f"classes.{name}", np.bool_, number.size).tolist() for name in ("quoted", "ends", "has_row")
    )
    digests = _array(arrays, "classes.digest", np.uint8, 16 * number.size).tobytes()
    rows = _array(arrays, "classes.rows", np.int32, sum(has_row) * vocabulary.row_words)
    each = iter(rows.reshape(-1, vocabulary.row_words))
    parts = {}
    for name, most in (("ids", vocabulary.size), *((part, vocabulary.size) for part in _ENDING)):
        found = _array(arrays, f"classes.{name}", np.int32)
        _within(name, found, 0, punctuation if name == "numbers" else most)
        parts[name] = _split(found, _array(arrays, f"classes.{name}.sizes", np.int32, number.size))
    for i, state in enumerate(number.tolist()):
        digest = digests[16 * i : 16 * i + 16]
        key = (quoted[i], digest) if state < 0 else (quoted[i], digest, state)
        closers, numbers, tokens = (parts[name][i] for name in _ENDING)
        if numbers.size != tokens.size:
            raise SnapshotMismatch("an ending has more remainders than tokens, or fewer")
        ending = (Ending(0, closers, numbers, tokens),) if ends[i] else ()
        yield key, RootClass(next(each).copy() if has_row[i] else None, parts["ids"][i], ending)


def _split(found: I32, sizes: I32) -> Sequence[I32]:
    _within("sizes", sizes, 0, found.size + 1)
    if int(sizes.sum()) != found.size:
        raise SnapshotMismatch("lists of tokens are cut off")
    return [part.copy() for part in np.split(found, np.cumsum(sizes)[:-1])] if sizes.size else []
