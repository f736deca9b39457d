"""Bound what a chat template may compute: it comes with a checkpoint, and a few characters of it can ask for more
memory and time than a machine has.

Counted for one rendering: rounds of loops and calls of macros, characters that were made on the way, CPU seconds.

Not covered: what one step does with texts of the largest size (a search in 32 MB); the time of steps between two looks
at the clock.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from string import Formatter
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MOST_STEPS = 1_000_000
MOST_CHARS = 32 * 1024**2
"""Of one text; the largest body of a request has a quarter."""
MOST_MADE = 512 * 1024**2
"""Characters of all texts that were made on the way to the prompt."""
MOST_S = 10.0
FEW_STEPS, FEW_MADE = 10_000, 4 * 1024**2
"""Steps and characters of a rendering that the event loop can wait for: some 30 ms. Usual ones take hundreds."""
MOST_WIDTH = 10_000
"""Of a field that a filter or a method fills up with blanks, and of a list that it divides into."""
_PERCENT = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(?:\*|\d{5,}|\d*\.(?:\*|\d{5,}))")
_WIDE = "a format of it fills up to very many places, or to as many as a value says"
_FILLING = frozenset(
    {"center", "ljust", "rjust", "zfill", "expandtabs", "indent", "slice", "batch", "tojson", "to_bytes"}
)
"""Filters and methods whose whole numbers are widths or counts."""


class EndlessTemplate(TemplateError):
    """A template that asked for more than a prompt needs."""


class LongRendering(Exception):
    """A rendering within `FewSteps` that takes more: it is to be begun again in a thread."""


_FEW: ContextVar[bool] = ContextVar("chat_template_few_steps", default=False)


class FewSteps:
    """Let renderings of this task raise `LongRendering` where the event loop could not wait for them. Threads are not
    of this task. A class, because a generator would cost more than many a rendering."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _FEW.set(True)

    def __exit__(self, *ended: object) -> None:
        _FEW.reset(self._token)


class RenderBudget:
    """What one rendering used so far."""

    __slots__ = ("_began_s", "_is_short", "_made", "_steps")

    def __init__(self) -> None:
        self._steps = self._made = 0
        self._is_short = _FEW.get()
        self._began_s = time.thread_time()

    def step(self) -> None:
        """Count a round of a loop, or a call of a macro. Raises `EndlessTemplate`, `LongRendering`."""
        self._steps += 1
        if self._is_short and self._steps > FEW_STEPS:
            raise LongRendering
        if self._steps > MOST_STEPS:
            raise EndlessTemplate(f"it takes more than {MOST_STEPS} steps")
        if self._steps % 256 == 0:
            self._look()

    def made(self, count: int) -> None:
        """Count the characters, or items, of something that is made. Raises `EndlessTemplate`, `LongRendering`."""
        self._made += count
        if self._is_short and self._made > FEW_MADE:
            raise LongRendering
        if count > MOST_CHARS or self._made > MOST_MADE:
            raise EndlessTemplate(f"it makes a text of more than {MOST_CHARS} characters, or too many of them")
        if count > 100_000:
            self._look()

    def _look(self) -> None:
        if time.thread_time() - self._began_s > MOST_S:
            raise EndlessTemplate(f"it computes for more than {MOST_S:g} s")


_BUDGET: ContextVar[RenderBudget | None] = ContextVar("chat_template_budget", default=None)


@contextmanager
def budget() -> Iterator[RenderBudget]:
    """Give what is rendered within one budget."""
    made = RenderBudget()
    token = _BUDGET.set(made)
    try:
        yield made
    finally:
        _BUDGET.reset(token)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox whose templates render within the `budget` of whoever renders them. Compile by `bounded`."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.globals.pop("lipsum", None)  # texts of any length

    @staticmethod
    def step() -> None:
        used = _BUDGET.get()
        if used is not None:
            used.step()

    @staticmethod
    def joined(*parts: Any) -> str:
        texts = [str(part) for part in parts]
        _made(sum(map(len, texts)))
        return "".join(texts)

    def bounded(self, template: str) -> Any:
        """Compile a template. Raises `jinja2.TemplateSyntaxError`."""
        for name, one in list(self.filters.items()):
            self.filters[name] = _bounded(name, one)
        with budget():  # what is constant is computed as it is compiled
            return self.from_string(_Counting().visit(self.parse(template)))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            if isinstance(left, int) and isinstance(right, int):
                _made(left.bit_length() + right.bit_length())
            _made(_size(left) * right if isinstance(right, int) else 0)
            _made(_size(right) * left if isinstance(left, int) else 0)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _made(left.bit_length() * abs(right))
        elif operator == "%" and isinstance(left, str):
            _refuse_wide_percent(left)
            _made(_filled(left.count("%"), (left, *_within(right))))
        elif operator == "+":
            _made(_size(left) + _size(right))
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        inner = super().wrap_str_format(value)
        if inner is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            form = str(value.__self__)
            given = [one for several in (*args, *kwargs.values()) for one in (several, *_within(several))]
            _refuse_wide_braces(form, given)
            _made(_filled(form.count("{"), (form, *given)))
            return inner(*args, **kwargs)

        return checked

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str | bytes | int):
            _check(getattr(obj, "__name__", ""), (owner, *args), kwargs)
        found = super().call(context, obj, *args, **kwargs)
        _made(_size(found))
        return found


class _Counting(NodeTransformer):
    """Makes each round of a loop, each call of a macro, and each text joined by `~` count."""

    def visit_For(self, node: nodes.For) -> Any:
        return self._counted(node)

    def visit_Macro(self, node: nodes.Macro) -> Any:
        return self._counted(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        join = nodes.EnvironmentAttribute("joined", lineno=node.lineno)  # a name could be set to something else
        return nodes.Call(join, node.nodes, [], None, None, lineno=node.lineno)

    def _counted(self, node: Any) -> Any:
        self.generic_visit(node)
        step = nodes.EnvironmentAttribute("step", lineno=node.lineno)
        call = nodes.Call(step, [], [], None, None, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(call, lineno=node.lineno))
        return node


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _check(name, args, kwargs)
        found = function(*args, **kwargs)
        _made(_size(found))
        return found

    return checked


def _check(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Look at what a filter, or a method of a text, is asked for before it is called. Raises `EndlessTemplate`."""
    if name in _FILLING:
        widths = [one for one in (*args, *kwargs.values()) if isinstance(one, int)]
        if any(width > MOST_WIDTH for width in widths):
            raise EndlessTemplate(f"it fills up to more than {MOST_WIDTH} places")
        if name in ("indent", "tojson"):  # before each line, or each value
            _made(max(widths, default=0) * _lines(args[0] if args else ""))
    elif name == "format" and args and isinstance(args[0], str):  # the filter: its method is `wrap_str_format`'s
        _refuse_wide_percent(args[0])
        _made(_filled(args[0].count("%"), (*args, *kwargs.values())))
    elif name == "replace":
        texts: list[Any] = [one for one in (*args, *kwargs.values()) if isinstance(one, str | bytes)]
        if len(texts) > 2:
            _made(len(texts[0]) + (texts[0].count(texts[1]) if texts[1] else len(texts[0]) + 1) * len(texts[2]))
    elif name == "join":
        texts = [one for one in (*args, *kwargs.values()) if isinstance(one, str | bytes)]
        lists = [one for one in args if isinstance(one, list | tuple)]
        _made(max(map(len, texts), default=0) * max(map(len, lists), default=0))
    elif name == "translate" and len(args) > 1:
        _made(_filled(len(args[0]), _within(args[1])))


def _within(value: Any) -> Sequence[Any]:
    """Return what a tuple, list or mapping holds; a value that is none of them, alone."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list | tuple) else (value,)


def _filled(count: int, values: Sequence[Any]) -> int:
    """Return the most characters of a text with `count` places for `values`."""
    return count * max((len(one) if isinstance(one, str) else 64 for one in values), default=0)


def _lines(value: Any) -> int:
    return value.count("\n") + 1 if isinstance(value, str) else 1000


def _refuse_wide_percent(form: str) -> None:
    if _PERCENT.search(form):
        raise EndlessTemplate(_WIDE)


def _refuse_wide_braces(form: str, values: Sequence[Any]) -> None:
    """Raise `EndlessTemplate` for a field that is filled up to many places, or to as many as one of `values` says."""
    specs = [spec for _, _, spec, _ in Formatter().parse(form) if spec]
    is_large = any(isinstance(one, int) and abs(one) > MOST_WIDTH for one in values)
    if any(re.search(r"\d{5,}", spec) or ("{" in spec and is_large) for spec in specs):
        raise EndlessTemplate(_WIDE)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple | bytes) else 0


def _made(count: int) -> None:
    used = _BUDGET.get()
    if used is not None and count > 0:
        used.made(count)
