"""Say what an operator should know of how a model is served."""

from __future__ import annotations

import logging
from typing import Any

from sluicegate.engine.cpu import BLOCK_NAMES, HALF_NAMES, kept_forms, weight_count, whole_weights, zero_weights
from sluicegate.engine.memory.states import StateShape, state_bytes
from sluicegate.engine.settings import WeightsKind

_LOG = logging.getLogger(__name__)


def what_is_whole(module: Any, weights: WeightsKind, name: str) -> tuple[str, ...]:
    """Return a sentence on matrices that were not rounded, and log it as a warning; () if they are at most 1 % of the
    weights."""
    kept = whole_weights(module)
    share = sum(kept.values()) / max(1, weight_count(module))
    if share <= 0.01:  # routers may stay
        return ()
    note = (
        f"weights = {weights!r} left {100 * share:.0f} % of the weights in full precision, in {len(kept)} "
        f"{'matrix' if len(kept) == 1 else 'matrices'} such as {max(kept, key=kept.__getitem__)}"
    )
    _LOG.warning("%s: %s", name, note)
    return (note,)


def what_is_zero(module: Any, name: str) -> tuple[str, ...]:
    """Return a sentence on matrices that hold zeros alone, and log it; () where there are none. They are seen in
    checkpoints that were widened by layers to be trained, and in files whose room was taken before they were fetched.
    """
    if not (found := zero_weights(module)):
        return ()
    note = f"{len(found)} of its matrices hold zeros alone, such as {found[0]}: was its download finished?"
    _LOG.warning("%s: %s", name, note)
    return (note,)


def what_is_in_blocks(module: Any) -> tuple[str, ...]:
    """Return a sentence on the stored formats of a GGUF file's matrices, and the share in full precision."""
    forms = kept_forms(module)
    if not forms:
        return ("its GGUF file was widened: all weights are in full precision",)
    names = {form: name for name, form in (*BLOCK_NAMES.items(), *HALF_NAMES.items())}
    counts = " and ".join(f"{count} in {names[form]}" for form, count in sorted(forms.items()))
    whole = sum(whole_weights(module).values()) / max(1, weight_count(module))
    rest = f"; {100 * whole:.0f} % of the weights are in full precision" if whole > 0.01 else ""
    return (f"matrices keep the numbers of its GGUF file: {counts}{rest}",)


def what_is_kept(states: tuple[StateShape, ...], name: str) -> tuple[str, ...]:
    """Return a sentence on the memory of recurrent states, and log it; () for a model without them."""
    if not states:
        return ()
    note = (
        f"has recurrent layers: {state_bytes(states):,} bytes are kept of each sequence that runs, and of prompts as "
        "far as the cache has room, for those that begin alike; nothing is guessed ahead"
    )
    _LOG.info("%s %s", name, note)
    return (note,)


def what_chats_become(tokenizer: Any, name: str) -> tuple[str, ...]:
    """Return a sentence on the form of a conversation for a model without a chat template, and log it as a warning;
    () for one that brings it."""
    if tokenizer.chat_template:
        return ()
    note = (
        "brings no chat template, as models that were not trained for conversations: messages become lines of "
        "`role: text`; serve an instruction-tuned checkpoint for chats, or ask this one by /v1/completions"
    )
    _LOG.warning("%s %s", name, note)
    return (note,)
