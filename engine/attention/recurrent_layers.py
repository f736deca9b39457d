"""Serve models with recurrent layers beside attention: gated linear attention, state spaces, short convolutions.

The code of the layers is unchanged. During a step with states they get the states of its sequences as their cache.
Without such a step they run as `transformers` runs them; the comparison at load uses that as the reference.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.attention.recurrent import recurrent_step

_ASKED = frozenset({"get_conv_state", "get_recurrent_state", "update_conv_state", "update_recurrent_state"})
"""Methods of a cache that recurrent layers call, and no others do."""
_NAMES = ("cache", "cache_params", "past_key_values")
"""Names of a layer's parameter for the cache: the first since transformers 5.24, which warns about the others."""
_FROM_ZERO = "mamba_selective_scan"
"""Mamba-1 layers call this function for several tokens at once; it always starts from a state of zeros."""


def serve_recurrent(module: Any) -> None:
    """Make the recurrent layers of `module` use the states of the running step."""
    made: dict[type, type] = {}
    for part in module.modules():
        kind = type(part)
        if kind not in made:
            made[kind] = kind if (keyword := _cache_keyword(kind)) is None else _with_states(kind, keyword)
        if made[kind] is not kind:
            part.__class__ = made[kind]


def recurrent_layers(module: Any) -> tuple[str, ...]:
    """Return the names of the recurrent layers in a model that `serve_recurrent` has prepared."""
    return tuple(name for name, part in module.named_modules() if isinstance(part, RecurrentLayer))


class RecurrentLayer:
    """Mixin for recurrent layers, put before their own class. `cache_keyword`: their parameter for the cache;
    `goes_on_singly`: tokens that continue a sequence are passed one at a time."""

    cache_keyword: str
    goes_on_singly: bool

    def forward(self, hidden_states: Tensor, *args: Any, **more: Any) -> Any:
        own: Any = super().forward  # type: ignore[misc]  # the next class is the layer's own
        if (step := recurrent_step()) is None:
            return own(hidden_states, *args, **more)

        def call(rows: Tensor, states: Any) -> Any:
            cache = {self.cache_keyword: states}
            if states.begins or not self.goes_on_singly:
                return own(rows, **cache)
            return torch.cat([own(row, **cache) for row in rows.split(1, 1)], 1)

        return step.mix(call, hidden_states)


def _cache_keyword(kind: type) -> str | None:
    """Return the name of the parameter by which a layer class takes its cache; None where it is not recurrent."""
    if issubclass(kind, RecurrentLayer) or not any(_ASKED.intersection(code.co_names) for code in _own_code(kind)):
        return None
    takes = inspect.signature(kind.forward).parameters  # type: ignore[attr-defined]  # a torch module has one
    return next((name for name in _NAMES if name in takes), None)


def _own_code(kind: type) -> Iterator[CodeType]:
    """Yield the code objects of a class's methods, with decorators unwrapped."""
    for owner in kind.__mro__:
        for member in vars(owner).values():
            if isinstance(plain := inspect.unwrap(member) if callable(member) else member, FunctionType):
                yield plain.__code__


def _with_states(kind: type, keyword: str) -> type:
    singly = any(_FROM_ZERO in code.co_names for code in _own_code(kind))
    return type(kind.__name__, (RecurrentLayer, kind), {"cache_keyword": keyword, "goes_on_singly": singly})
