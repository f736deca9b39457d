"""What stages need of a grammar, of a model in memory, and of a generation that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from sluicegate.plugins.contract.answers import Piece, Usage
from sluicegate.plugins.contract.names import Mask
from sluicegate.plugins.contract.requests import Prompt, Request, Sampling
from sluicegate.plugins.frozen import quick


@runtime_checkable
class Matcher(Protocol):
    """One sequence's way through a grammar. Not thread-safe; used by one thread at a time."""

    def fill_mask(self, row: Mask) -> bool:
        """Overwrite `row`; False means every token is allowed and the mask need not be applied."""

    def accept(self, token_id: int) -> None:
        """Advance; raises `TokenRejected`, and then nothing has changed."""

    def rollback(self, n: int) -> None:
        """Undo the last `n` accepted tokens; masks are then bit-identical to those before."""

    def forced_tokens(self) -> list[int]:
        """Tokens the grammar leaves no choice about from here, in canonical tokenisation; [] where unsure."""

    @property
    def can_stop(self) -> bool:
        """What was accepted is a whole value: an end-of-sequence token is allowed."""

    @property
    def is_finished(self) -> bool:
        """An end-of-sequence token was accepted, or nothing but one may follow."""


@runtime_checkable
class CompiledGrammar(Protocol):
    """Immutable; shared between requests and threads."""

    def matcher(self) -> Matcher: ...


class ServedModel(Protocol):
    """What stages may know of a model in memory. One with a true attribute `remote` is run by another server, which
    renders its prompts; its `tokenizer` has one token a byte, and what it answers is judged by the grammar here. One
    with a `base` is an adapter beside the model of that name."""

    name: str
    version: str
    context_length: int
    vocab_size: int
    """Columns of the logits, the padded vocabulary."""
    eos_token_ids: tuple[int, ...]
    tokenizer: Any
    """A `transformers` tokenizer."""


@quick
@dataclass(frozen=True, slots=True)
class Job:
    """One prompt to generate from, `n` choices."""

    request_id: str
    model: str
    prompt: Prompt
    sampling: Sampling
    grammar: CompiledGrammar | None = None
    n: int = 1
    tenant: str = "anonymous"
    priority: int = 0
    explain: bool = False
    """Describe every token in the generation's `timeline`."""
    traceparent: str = ""
    """W3C trace context of the request, for generators that pass it on to another process."""
    deadline_s: float | None = None
    """Seconds from now after which nobody wants the answer; None = whenever it comes."""
    version: str | None = None
    """Of the model that prompt and grammar were made for; another one is refused. None = any."""
    request: Request | None = None
    """What is asked, for generators that pass it on to another server."""
    tool_grammars: Mapping[str, CompiledGrammar] = field(default_factory=dict)
    """Of the arguments of tools, by name, for generators that know calls by themselves. A tool without one has its
    arguments judged once they are whole."""


class Generation(Protocol):
    """A running generation. Iterating yields the choices' pieces as they come; each choice ends with a piece that has
    a `finish_reason`, and the iteration ends after the last. `cancel` is idempotent, may be called at any time from
    the event loop, and frees the blocks within one engine step. It may have a `timeline: Timeline`, which says when
    its parts happened; and an `async begin()`, awaited before the first piece is: its errors can still become a status,
    and `usage` is true from then on, however it ends."""

    def __aiter__(self) -> AsyncIterator[Piece]: ...

    def cancel(self) -> None: ...

    @property
    def usage(self) -> Usage: ...


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a generator is with one model. `wait_s`: an estimate of what a request that comes now would wait."""

    running: int
    waiting: int
    """Sequences before a new one, as far as their tenants take no turns."""
    free_blocks: int
    total_blocks: int
    wait_s: float
