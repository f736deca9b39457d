"""Report the model's own logprobs, computed before filters, penalties and masks change the logits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.sampling.outcomes import MaskRows, Outcome, SampledToken
from sluicegate.engine.sampling.rows import LogitsRow

LIKELY = 16
"""Number of tokens in `SampledToken.likely`."""
_FORBIDDEN = float("-inf")


class ReportedRows(NamedTuple):
    """The rows of a step that report logprobs, in order."""

    rows: list[int]
    indices: Tensor
    """The same as int64 [L], on the device of the logits."""
    wanted: list[int]
    """For each row [L], how many of the likeliest tokens it reports."""
    explained: frozenset[int]
    """Rows that also report logprobs under their masks."""

    @classmethod
    def of(cls, rows: Seq[LogitsRow], device: torch.device) -> ReportedRows | None:
        """Collect the rows that report logprobs; None if there are none."""
        found = [i for i, row in enumerate(rows) if row.rule.logprobs is not None or row.is_explained]
        if not found:
            return None
        wanted = [rows[i].rule.logprobs or 0 for i in found]
        explained = frozenset(i for i in found if rows[i].is_explained)
        return cls(found, to_device(torch.tensor(found), device), wanted, explained)


class RawLogprobs:
    """Log-softmax of the reported rows."""

    def __init__(self, logits: Tensor, of: ReportedRows) -> None:
        """Compute the logprobs of reported rows from `logits` [R, V], which is not modified."""
        self._of = of
        self._values = torch.log_softmax(logits.index_select(0, of.indices), -1)  # [L, V]

    def note(self, tokens: Tensor) -> Tensor:
        """Return, for the chosen `tokens` int64 [R], the input of `report` as one float64 vector: per reported row the
        chosen token's logprob, the likeliest logprobs, and their ids."""
        chosen = self._values.gather(1, tokens.index_select(0, self._of.indices)[:, None])
        values, ids = self._values.topk(max(self._of.wanted), -1)
        return torch.cat([part.double() for part in (chosen, values, ids)], -1).flatten()

    def report(self, drawn: list[Outcome], noted: list[float], masks: MaskRows, usable: int) -> None:
        """Replace the outcomes of reported rows by ones with logprobs, taken from `noted`. Columns from `usable` on are
        padding."""
        most = max(self._of.wanted)
        for at, (row, wanted) in enumerate(zip(self._of.rows, self._of.wanted, strict=True)):
            mine = noted[at * (1 + 2 * most) : (at + 1) * (1 + 2 * most)]
            ids = [int(token) for token in mine[1 + most : 1 + most + wanted]]
            top = tuple(zip(ids, mine[1 : 1 + wanted], strict=True))
            outcome = drawn[row]
            assert isinstance(outcome, SampledToken)
            under = self._under_mask(at, row, mine[0], masks, usable) if row in self._of.explained else (None, ())
            drawn[row] = SampledToken(outcome.token_id, mine[0], top, *under)

    def _under_mask(
        self, at: int, row: int, chosen: float, masks: MaskRows, usable: int
    ) -> tuple[float, tuple[tuple[int, float], ...]]:
        """Return the drawn token's logprob, and the likeliest tokens, after renormalising over the tokens the mask
        allows."""
        values = self._values[at, :usable]
        index = bisect_left(masks.masked, row)
        if index < len(masks.masked) and masks.masked[index] == row:
            words = np.ascontiguousarray(masks.bitmask[index]).view(np.uint8)
            allowed = np.unpackbits(words, bitorder="little")[:usable].astype(bool)
            values = values.masked_fill(to_device(torch.from_numpy(~allowed), values.device), _FORBIDDEN)
        found, ids = values.topk(min(LIKELY, values.shape[-1]))
        mass, *rest = torch.cat([part.double() for part in (values.logsumexp(-1)[None], found, ids)]).tolist()
        likely = zip(map(int, rest[len(ids) :]), rest, strict=False)
        return min(0.0, chosen - mass), tuple((token, value - mass) for token, value in likely if value > _FORBIDDEN)
