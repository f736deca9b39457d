"""Fill token masks: one for each row that a grammar constrains, before sampling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from collections.abc import Sequence as Seq
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.cpu import WantedLogits
from sluicegate.engine.failures import as_failure
from sluicegate.engine.sampling.bitmasks import Bitmask, forbid, permit, words_for
from sluicegate.engine.sampling.outcomes import MaskRows
from sluicegate.plugins import Matcher, SluicegateError

Room = Callable[[int, int], Bitmask]
"""Returns zeroed masks [rows, words] int32."""


def fill_masks(
    rows: Seq[SampleRow], vocab_size: int, eos_token_ids: tuple[int, ...], room: Room
) -> tuple[MaskRows, dict[int, SluicegateError]]:
    """Fill the masks of constrained rows, in memory from `room`; also return the matchers' errors by row index. A
    failed row has no mask and must not be sampled.

    Rows of one sequence must be adjacent, ordered by `ahead`: its matcher accepts the draft token by token and is
    rolled back at its end.
    """
    constrained = [i for i, row in enumerate(rows) if row.sequence.matcher is not None]
    if not constrained and not any(row.sequence.sampling.min_tokens for row in rows):
        return MaskRows(), {}
    bitmask = room(len(constrained), words_for(vocab_size))
    masked: list[int] = []
    free: set[int] = set()
    failures: dict[int, SluicegateError] = {}
    for index in constrained:
        if index in failures:
            continue
        try:
            filled = _fill(rows[index], bitmask, len(masked))
        except Exception as error:  # the matcher may stand anywhere on the draft now: no row of it can be used
            _go_back(rows[index])
            same = [i for i, row in enumerate(rows) if row.sequence is rows[index].sequence]
            failures |= dict.fromkeys(same, as_failure(error, "filling the token mask"))
            continue
        if filled:
            masked.append(index)
        else:
            free.add(index)
    for at, index in enumerate(masked):
        if not rows[index].may_end:
            forbid(bitmask[at], eos_token_ids)
    has_mask = set(masked)
    unending = [i for i, row in enumerate(rows) if not row.may_end and i not in has_mask]
    barred = {i: list(ids) for i in unending if (ids := rows[i].sequence.sampling.stop_token_ids)}
    return MaskRows(masked, bitmask[: len(masked)], frozenset(free), unending, barred), failures


Filled = tuple[MaskRows, dict[int, SluicegateError], float]
"""Masks, failures, and the seconds that computing both took."""


class MasksAhead:
    """Fills a step's masks on a thread while the forward pass runs: a mask depends on earlier tokens, not on logits.
    Pays where the forward pass releases the interpreter's lock."""

    fewest = 3
    """From this many constrained rows on, masks are computed by another thread; fewer are filled before the pass
    begins."""

    def __init__(self, fill: Callable[[Seq[SampleRow]], Filled]) -> None:
        self._fill = fill
        self._thread: ThreadPoolExecutor | None = None
        self._begun: tuple[list[SampleRow], Future[Filled] | Filled] | None = None

    def begin(self, draws: list[SampleRow], wanted: WantedLogits | None = None) -> None:
        """Start filling the masks of `draws`. Until `take` nobody else may touch their matchers. `wanted` receives the
        masks, so that the pass can skip logits they refuse."""
        if sum([draw.sequence.matcher is not None for draw in draws]) < self.fewest:
            self._begun = draws, self._fill_and_tell(draws, wanted)
            return
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="masks")
        self._begun = draws, self._thread.submit(self._fill_and_tell, draws, wanted)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def _fill_and_tell(self, draws: list[SampleRow], wanted: WantedLogits | None) -> Filled:
        filled = self._fill(draws)
        masks = filled[0]
        if wanted is not None and masks.masked:
            wanted.mark_refused(masks.bitmask, [at if draws[at].looks_at_allowed_only else -1 for at in masks.masked])
        return filled

    def take(self) -> tuple[list[SampleRow], Filled] | None:
        """Wait for the masks and return them with their rows; None if `begin` was not called."""
        begun, self._begun = self._begun, None
        if begun is None:
            return None
        draws, filled = begun
        return draws, filled.result() if isinstance(filled, Future) else filled


def note_masks(rows: Seq[SampleRow], masks: MaskRows, vocab_size: int, seconds: float) -> None:
    """Add the time of masks to the rows' timelines, in equal parts; for explained rows also the share of the vocabulary
    that is refused."""
    each = seconds / max(1, len(masks.masked))
    for at, index in enumerate(masks.masked):
        sequence = rows[index].sequence
        sequence.timeline.mask_s += each
        if sequence.timeline.explain:
            allowed = int(np.unpackbits(masks.bitmask[at].view(np.uint8)).sum())
            sequence.refused[rows[index].ahead] = 1 - allowed / vocab_size


def _fill(row: SampleRow, bitmask: Bitmask, at: int) -> bool:
    """Fill `bitmask[at]` [words] for one row; return False if every token is allowed. Then move the matcher one draft
    token forward, or, at the end of the draft, back to its beginning."""
    matcher, draft = row.sequence.matcher, row.sequence.draft
    assert matcher is not None
    filled = matcher.fill_mask(bitmask[at])
    if filled and row.sequence.sampling.stop_token_ids and row.may_end and matcher.can_stop:
        permit(bitmask[at], row.sequence.sampling.stop_token_ids)
    _walk(matcher, draft, row.ahead)
    return filled


def _go_back(row: SampleRow) -> None:
    """Try to roll a matcher that raised back to the state before the draft."""
    if row.ahead and row.sequence.matcher is not None:
        with contextlib.suppress(Exception):
            row.sequence.matcher.rollback(row.ahead)


def _walk(matcher: Matcher, draft: list[int], ahead: int) -> None:
    if ahead < len(draft):
        matcher.accept(draft[ahead])
    elif draft:
        matcher.rollback(len(draft))
