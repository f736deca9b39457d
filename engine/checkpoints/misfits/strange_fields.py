"""Name the field of a config.json that no model can have, in place of what a library raised over it.

`transformers` reports a wrong type by an error of its own, and a wrong number by whatever it breaks: a division by
zero, an unknown key, a tensor of a negative size. Which field it was is found by making the configured model again,
without memory, with one strange field at a time as usual: the one without which nothing is raised is to blame.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from sluicegate.plugins import ModelLoadError

_HUGE = 1 << 20
_MOST_SHOWN = 3
_LONGEST = 80
_ADVICE = "Correct it, or fetch the checkpoint anew"
_NUMBERS = (8, 16, 64, 1, 0)
"""Tried where a usual value does not go with the other fields."""
_TYPES = {"NoneType": "null", "str": "a string", "int": "a whole number", "float": "a number with a point"} | {
    "bool": "true or false", "list": "a list", "dict": "an object"
}  # fmt: skip
_OWN = {"mimo"}
"""Kinds that are read as others."""


class StrangeField(NamedTuple):
    """A field whose value is of another kind than usual. `place`: the names that lead to it."""

    place: tuple[str, ...]
    value: Any
    usual: Any
    has_usual: bool

    def __str__(self) -> str:
        usual = f", where transformers' own is {_shown(self.usual)}" if self.has_usual else ""
        return f"{'.'.join(self.place)} = {_shown(self.value)}{usual}"


def refuse_strange_values(said: Mapping[str, Any], where: str) -> None:
    """Raise `ModelLoadError` for what no config.json says: a NaN, a kind of model or of weights that nobody knows, a
    list where an object belongs."""
    from transformers import CONFIG_MAPPING

    for place, value in _leaves(said):
        if isinstance(value, float) and math.isnan(value):
            raise _refusal(where, ".".join(place), value, "a number")
        if (
            place[-1] in ("dtype", "torch_dtype")
            and _is_of_config(place)
            and value is not None
            and not _is_dtype(value)
        ):
            raise _refusal(where, ".".join(place), value, "'float32', 'bfloat16' or 'float16'")
    kind = said.get("model_type")
    if not said.get("auto_map") and not (isinstance(kind, str) and (kind in CONFIG_MAPPING or kind in _OWN)):
        raise _refusal(where, "model_type", kind, "a kind of model that transformers has, such as 'llama' or 'qwen3'")
    names = said.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise _refusal(where, "architectures", names, "a list of names of classes")
    fields = said.get("quantization_config")
    if fields is not None and not isinstance(fields, dict):
        raise _refusal(where, "quantization_config", fields, "an object with a quant_method")


def _is_of_config(place: tuple[str, ...]) -> bool:
    """Return whether a field is one of the configuration, or of a configuration in it."""
    return all(name.endswith("_config") and name != "quantization_config" for name in place[:-1])


def _is_dtype(value: Any) -> bool:
    import torch

    return isinstance(value, str) and (value == "auto" or isinstance(getattr(torch, value, None), torch.dtype))


def _refusal(where: str, name: str, value: Any, expected: str) -> ModelLoadError:
    return ModelLoadError(f"{where!r}: config.json says {name} = {_shown(value)}; expected {expected}. {_ADVICE}")


def _shown(value: Any) -> str:
    return _shorter(repr(value), _LONGEST)


def _shorter(text: str, most: int = 3 * _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def field_refusal(said: Mapping[str, Any], error: Exception, where: str) -> ModelLoadError | None:
    """Return the refusal that names the field of `said` to blame for `error`, which a library raised over it; None if
    it is none of them."""
    if (typed := _of_types(said, error, where)) is not None:
        return typed
    if not said or error_of(said) is None:
        return None
    reason = _reason(error)
    if (strange := _to_blame(said)) is not None:
        allowed = f"; expected {found}" if (found := _allowed(strange)) else ""
        return ModelLoadError(
            f"{where!r}: config.json says {strange}: no {said.get('model_type')} model can be made of it{reason}"
            f"{allowed}. {_ADVICE}"
        )
    return ModelLoadError(f"{where!r}: its config.json contradicts itself{reason}. {_ADVICE}") if reason else None


def _to_blame(said: Mapping[str, Any]) -> StrangeField | None:
    """Return the first field without whose value a model can be made: as usual or left out, else of a small number."""
    changed = list(_changed_fields(said))
    for others in (_with_usual, _with_numbers):
        for strange in changed:
            if any(error_of(other) is None for other in others(said, strange)):
                return strange
    return None


def _reason(error: Exception) -> str:
    """Return what a configuration's own checks say, which name its fields; "" of other errors."""
    found = re.match(r"Class validation error for validator '\w+':\s+\w+: (.*)", str(error), re.DOTALL)
    said = found[1] if found is not None else str(error) if type(error) is ValueError else ""
    return f" ({_shorter(said.strip().rstrip('.'))})" if said else ""


def _of_types(said: Mapping[str, Any], error: Exception, where: str) -> ModelLoadError | None:
    """Return the refusal for a value of another type than the field's, which `transformers` has found."""
    found = re.match(r"Validation error for field '(\w+)':\s+\w+: (.*)", str(error), re.DOTALL)
    if found is None:
        return None
    types = re.search(r"any type in \((.*?)\)(?:\.|$)|expected (.+?), got", found[2], re.DOTALL)
    named = re.findall(r"\w+", re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", types[1] or types[2])) if types else []
    expected = " or ".join(dict.fromkeys(_TYPES[name] for name in named if name in _TYPES)) or "another value"
    value = next((one for place, one in _leaves(said, inner=True) if place[-1] == found[1]), None)
    return _refusal(where, found[1], value, expected)


def error_of(said: Mapping[str, Any]) -> Exception | None:
    """Return what is raised when the model that `said` describes is made without memory; None if nothing is."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    if _takes_long(said):
        return ValueError("it has too many parts to be made for a trial")
    try:
        config = CONFIG_MAPPING[said["model_type"]].from_dict(copy.deepcopy(dict(said)))
        with torch.device("meta"):
            AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    except Exception as error:
        return error
    return None


def _takes_long(said: Mapping[str, Any]) -> bool:
    """Return whether a number in `said` could be that of millions of layers, each an object."""
    return any(isinstance(value, int) and value > _HUGE and "layer" in place[-1] for place, value in _leaves(said))


def _with_usual(said: Mapping[str, Any], strange: StrangeField) -> Iterator[dict[str, Any]]:
    """Yield `said` with the field as usual, and without it."""
    if strange.has_usual:
        yield _with(said, strange.place, strange.usual)
    yield _with(said, strange.place, _ABSENT)


def _with_numbers(said: Mapping[str, Any], strange: StrangeField) -> Iterator[dict[str, Any]]:
    """Yield `said` with harmless numbers in the place of another."""
    if isinstance(strange.value, int | float):
        yield from (_with(said, strange.place, number) for number in _NUMBERS)


def _with(said: Mapping[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(dict(said))
    inner = made
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    if value is _ABSENT:
        del inner[place[-1]]
    return made


_ABSENT = object()


def _allowed(strange: StrangeField) -> str:
    """Return the names that a field may have, where they are few."""
    from transformers.activations import ACT2FN
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    name = strange.place[-1]
    if name in ("rope_type", "type") and "rope" in strange.place[0]:
        return "one of " + ", ".join(sorted({"default", *ROPE_INIT_FUNCTIONS}))
    if isinstance(strange.value, str) and "act" in name:
        return "one of " + ", ".join(sorted(ACT2FN))
    return ""


def strange_fields(said: Mapping[str, Any]) -> str:
    """Return the fields of `said` whose numbers or types are not usual, as text; "" if there are none."""
    found = [str(one) for one in _strange_fields(said) if type(one.value) is not type(one.usual) or _is_number(one)]
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


@contextmanager
def naming_strange_fields(fields: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Add to a `ModelLoadError` which of a config.json's `fields` are strange: a model that could be made and does not
    run, or computes nothing, may have its number from one of them."""
    try:
        yield
    except ModelLoadError as error:
        if not (found := strange_fields(fields())):
            raise
        raise ModelLoadError(f"{error.message}. Its config.json says {found}") from error


def _strange_fields(said: Mapping[str, Any]) -> Iterator[StrangeField]:
    """Yield the fields of another kind than those that `transformers` fills in, numbers before strings."""
    yield from sorted(filter(_is_strange, _fields(said)), key=_rank)


def _rank(one: StrangeField) -> int:
    """Return the order in which fields are looked at: values of another type, numbers, and what often is not usual."""
    if type(one.value) is not type(one.usual) and one.has_usual and one.usual is not None:
        return 0
    return 1 if _is_number(one) else 2 + isinstance(one.value, str)


def _changed_fields(said: Mapping[str, Any]) -> Iterator[StrangeField]:
    """Yield strange fields, then all others that are not as `transformers` fills them in."""
    yield from _strange_fields(said)
    yield from (one for one in _fields(said) if not _is_strange(one) and one.value != one.usual)


def _fields(said: Mapping[str, Any]) -> list[StrangeField]:
    usual = _usual_fields(said)
    return [
        StrangeField(place, value, usual.get(place), place in usual)
        for place, value in _leaves(said, inner=True)
        if place[-1] not in ("model_type", "architectures", "transformers_version") or len(place) > 1
    ]


def _usual_fields(said: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    from transformers import CONFIG_MAPPING

    kind = said.get("model_type")
    try:
        return dict(_leaves(CONFIG_MAPPING[kind]().to_dict(), inner=True)) if isinstance(kind, str) else {}
    except Exception:  # a kind that has no values of its own
        return {}


def _is_number(one: StrangeField) -> bool:
    return isinstance(one.value, int | float)


def _is_strange(one: StrangeField) -> bool:
    value, usual = one.value, one.usual
    if isinstance(value, bool) or value is None:
        return one.has_usual and usual is not None and type(usual) is not type(value)
    if isinstance(value, int | float):
        if one.has_usual and usual is not None and (isinstance(usual, bool) or not isinstance(usual, int | float)):
            return True
        is_low = value < 0 or (value == 0 and usual is not None)
        return not math.isfinite(value) or abs(value) > _HUGE or (is_low and value != usual)
    if one.has_usual and usual is not None and type(value) is not type(usual):
        return True
    return isinstance(value, list) or (isinstance(value, str) and value != usual)


def _leaves(
    said: Mapping[str, Any], before: tuple[str, ...] = (), inner: bool = False
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value in an object and the objects in it, by its place; `inner`: those objects too."""
    for name, value in said.items():
        if isinstance(value, dict):
            if inner:
                yield (*before, name), value
            yield from _leaves(value, (*before, name), inner)
        else:
            yield (*before, name), value
            if isinstance(value, list) and not inner:
                yield from (((*before, name), one) for one in value)
