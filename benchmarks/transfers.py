"""Count what crosses between host and device in a step of the engine, and how often the host waits, without a device.

See `benchmarks.pretended_device` for what is counted. A step here is all that the engine's thread does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.device_models import make_model, submit
from benchmarks.pretended_device import CUDA, Crossings, moved_to_device, pretended_device
from sluicegate.engine import EngineSettings, LoadedModel, construction
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.engine.settings import AttentionKind
from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.plugins import Sampling

STEPS: dict[str, Sampling] = {
    "greedy": Sampling(temperature=0.0),
    "top-p": Sampling(temperature=0.8, top_p=0.9, seed=1),
    "typical": Sampling(temperature=0.8, typical_p=0.9, seed=1),
    "penalties": Sampling(temperature=0.8, repetition_penalty=1.2, frequency_penalty=0.5, presence_penalty=0.1, seed=1),
    "bias": Sampling(temperature=0.0, logit_bias={5: 1.0, 6: -1.0}),
    "min_tokens": Sampling(temperature=0.0, min_tokens=20, stop_token_ids=(7,)),
    "logprobs": Sampling(temperature=0.0, logprobs=2),
}
"""Steps that are counted, by what all their requests ask for. Beside them: `grammar`, and `mixed`, a greedy step that
reads a part of a prompt, too."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Crossings of one step by kind, and by kind and place."""

    places: Crossings

    def of(self, kind: str) -> int:
        return sum(count for (found, _), count in self.places.items() if found == kind)


class CountedEngine:
    """A small engine on a pretended device. Use within `counted_engine`."""

    def __init__(self, core: EngineCore, crossings: Crossings) -> None:
        self._core = core
        self._crossings = crossings
        vocabulary = Vocabulary.from_tokenizer(core.model.tokenizer)
        # Of many items: a random model may end a shorter one with its first token.
        schema = {"type": "array", "items": {"type": "string"}, "minItems": 64}
        self._grammar = compile_json_schema(schema, vocabulary)

    def count(self, name: str, batch: int = 2) -> Counted:
        """Count a step in which `batch` sequences go on with their answers; `name` of `STEPS`, `grammar` or `mixed`."""
        return asyncio.run(self._count(name, batch))

    async def _count(self, name: str, batch: int) -> Counted:
        asked = STEPS.get(name, STEPS["greedy"])
        grammar = self._grammar if name == "grammar" else None
        running = [submit(self._core, asked, seed, 5, grammar) for seed in range(batch)]
        while any(generation.completion_tokens < 2 for generation in running):
            if not self._core.has_work:
                raise RuntimeError(f"a request of {name!r} ended before its second token; ask for a longer answer")
            self._core.step()
        if name == "mixed":
            submit(self._core, asked, batch, 40, None)
            if self._core.is_ahead:
                self._core.step()  # launched before the prompt came
        self._crossings.clear()
        self._core.step()
        found = Counted(self._crossings.copy())
        self._core.requests.cancel_all()
        self._core.requests.outbox.flush()
        return found


@contextmanager
def counted_engine(attention: AttentionKind = "auto", most: int = 5) -> Iterator[CountedEngine]:
    """Make an engine for `most` requests at a time. `attention` other than "reference" needs Triton's interpreter."""
    model = make_model("tiny", torch.device("cpu"), torch.float32, 64)
    settings = EngineSettings(
        num_blocks=16 * most, block_size=16, max_batch_size=most, max_batch_tokens=64, draft_tokens=0,
        prefill_slowdown=0, attention=attention,
    )  # fmt: skip
    with pretended_device() as crossings, patch.object(construction, "CudaCapture", lambda _: _again):
        core = construction.make_core(_moved(model), settings, Outbox())
        core._masks_ahead.fewest = most + 1  # another thread would see no pretended device
        try:
            yield CountedEngine(core, crossings)
        finally:
            core.close()


def _moved(model: LoadedModel) -> LoadedModel:
    moved_to_device(model.module)
    model.device = CUDA
    return model


def _again(work: Callable[[], None]) -> Callable[[], None]:
    """Stand in for a capture: a replay does the work itself."""
    work()
    return work


def table(found: dict[str, Counted]) -> str:
    """Return a Markdown table, a line for each kind of step."""
    kinds = ("to device", "pageable", "to host", "wait")
    lines = ["| step | copies to the device, pinned | not pinned | copies to the host | other waits |"]
    lines += ["|---|--:|--:|--:|--:|"]
    lines += [f"| {name} | {' | '.join(str(step.of(kind)) for kind in kinds)} |" for name, step in found.items()]
    return "\n".join(lines)


def counted_steps(batch: int = 2) -> dict[str, Any]:
    with counted_engine() as engine:
        return {name: engine.count(name, batch) for name in (*STEPS, "grammar", "mixed")}
