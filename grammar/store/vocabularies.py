"""The vocabularies of all served models: each made once, shared by those with one tokenizer, kept between starts."""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

from sluicegate.grammar.classification.classify import prepare
from sluicegate.grammar.store import snapshot
from sluicegate.grammar.store.folder import Folder
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins import ServedModel

log = logging.getLogger("sluicegate.grammar")


class _Made(NamedTuple):
    vocabulary: Vocabulary
    tokenizer: object
    facts: tuple[int, tuple[int, ...]]
    """Columns and end tokens of the model."""
    classes: int
    """Number of states known when it was made: the disk has as many."""


class Vocabularies:
    """`folder`: where what was worked out is kept for the next start; None = nowhere. Safe for several threads."""

    def __init__(self, folder: Folder | None) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str], _Made] = {}
        self._lock = threading.Lock()

    def of(self, model: ServedModel) -> Vocabulary:
        """Return the vocabulary of `model`. The first time takes about a second for 128,000 tokens, and seconds more on
        a machine where it never ran."""
        with self._lock:
            key = (model.name, model.version)
            found = self._made.get(key) or self._of_same_tokenizer(model)
            if found is None:
                found = self._make(model)
            self._made[key] = found
            return found.vocabulary

    def keep(self) -> None:
        """Write what was learned since."""
        if self._folder is not None:
            for made in {id(made.vocabulary): made for made in self._made.values()}.values():
                if len(made.vocabulary.classes) != made.classes:
                    snapshot.keep(made.vocabulary, self._folder)

    def _of_same_tokenizer(self, model: ServedModel) -> _Made | None:
        """Return the tables built for a model with the same tokenizer, or None. Adapters share the tokenizer object of
        their base model, and so its tables."""
        facts = model.vocab_size, model.eos_token_ids
        return next(
            (one for one in self._made.values() if one.tokenizer is model.tokenizer and one.facts == facts), None
        )

    def _make(self, model: ServedModel) -> _Made:
        """Prepare the vocabulary of `model`. Logs what takes how long: somebody is waiting for the server."""
        began = time.perf_counter()
        log.info("grammar: loading compiled loops (some seconds the first time on this machine)")
        kernels.warm()
        loaded = time.perf_counter()
        log.info("grammar: loops ready after %.1f s; reading the vocabulary of %s", loaded - began, model.name)
        made = Vocabulary.from_tokenizer(model.tokenizer, model.vocab_size, eos_token_ids=model.eos_token_ids)
        restored = self._folder is not None and snapshot.restore(made, self._folder)
        prepare(made)
        if self._folder is not None and not restored:
            snapshot.keep(made, self._folder)
        origin = f"{len(made.classes)} states from disk" if restored else "made anew"
        took = time.perf_counter() - loaded
        log.info("grammar: %d tokens of %s ready after %.1f s (%s)", made.size, model.name, took, origin)
        return _Made(made, model.tokenizer, (model.vocab_size, model.eos_token_ids), len(made.classes))
