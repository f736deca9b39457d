"""Keep a growing text for a guard on the event loop, so that it survives the replacement of an engine thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import finalize

from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.token_readings import TokenQuestion, TokenReadings
from sluicegate.engine.loop.worker import Worker
from sluicegate.engine.model.model import GuardModel, LoadedModel
from sluicegate.engine.sequences.growing_text import GrowingText
from sluicegate.plugins import ContextLengthExceeded, GenerationFailed, Overloaded, RequestError, TokenJudgement

Find = Callable[[], tuple[Worker, EngineCore]]
"""Returns what currently computes the guard. Raises `NotFound`."""


class GuardText:
    """A `TokenReading` of one served guard."""

    def __init__(self, model: GuardModel, tenant: str, find: Find) -> None:
        self._model = model
        self._tenant = tenant
        self._find = find
        self._tokens: list[int] = []
        self._core: EngineCore | None = None
        self._text: GrowingText | None = None

    @property
    def room(self) -> int:
        pool = self._find()[1].scheduler.pool
        return min(self._model.context_length, pool.num_blocks * pool.block_size)

    async def judge(self, token_ids: Sequence[int], last: int, *, asked: bool = False) -> Sequence[TokenJudgement]:
        """Judge the `last` of the tokens added; see `TokenReading`. Raises `RequestError` for ids outside the
        vocabulary."""
        worker, core = self._find()
        self._check(core, token_ids, last)
        new = list(token_ids) if core is self._core else [*self._tokens, *token_ids]
        text = self._begun(worker, core)
        self._tokens += token_ids
        question = TokenQuestion(text, new, last, asked)
        assert core.readings is not None
        worker.ask(core.readings, question)
        return await question.future

    def _check(self, core: EngineCore, token_ids: Sequence[int], last: int) -> None:
        if core.model is not self._model:
            raise GenerationFailed(f"guard {self._model.name!r} was replaced while it judged; send the request again")
        if not token_ids or not 1 <= last <= len(token_ids):
            raise RequestError(f"{len(token_ids)} tokens were given, and the last {last} are to be judged")
        if not 0 <= min(token_ids) <= max(token_ids) < self._model.vocab_size:
            raise RequestError(f"token ids for a guard must lie between 0 and {self._model.vocab_size - 1}")
        if len(self._tokens) + len(token_ids) > self.room:
            raise ContextLengthExceeded(f"guard {self._model.name!r} reads {self.room} tokens, and the text has more")

    def _begun(self, worker: Worker, core: EngineCore) -> GrowingText:
        """Return the text's state in `core`; a new one if the core has changed."""
        if self._text is None or core is not self._core:
            readings = core.readings
            assert readings is not None
            self._core = core
            self._text = GrowingText(core.scheduler.pool.root(self._model.version, self._tenant))
            finalize(self, _let_go, worker, readings, self._text).atexit = False
        return self._text


def _let_go(worker: Worker, readings: TokenReadings, text: GrowingText) -> None:
    worker.post(lambda: readings.close(text))


def refuse_guard(model: LoadedModel) -> None:
    """Raise `RequestError` if `model` is a guard, which neither generates nor embeds."""
    if isinstance(model, GuardModel):
        raise RequestError(
            f"model {model.name!r} judges tokens of answers and writes none; name another, or use it in a rail "
            "token-guard",
            param="model",
            code="unsupported_model",
        )


def refuse_closing(worker: Worker) -> None:
    """Raise `Overloaded` while the engine shuts down."""
    if worker.is_closing:
        raise Overloaded("the engine is shutting down; send the request elsewhere", retry_after_s=5.0)
