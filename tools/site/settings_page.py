"""The page of all settings, made from the dataclasses that read them: name, what it takes, default, what it means."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import sluicegate.gateway.stage
from sluicegate.engine.encoders.settings import EncoderSettings
from sluicegate.engine.settings import EngineSettings
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.config import load
from sluicegate.gateway.prompts.chat_template import ChatTemplateSettings
from sluicegate.gateway.prompts.templates import TemplateSettings
from sluicegate.gateway.rails.policy import PolicySettings
from sluicegate.gateway.registry import PACKAGES
from sluicegate.gateway.routing.tiers import TierSettings
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.telemetry.metrics import Metrics
from sluicegate.plugins.settings import NoSettings, StageOfSettings, in_words
from sluicegate.safety.rail_policy import RailPolicy
from sluicegate.safety.settings import (
    InputSettings,
    OutputSettings,
    PatternSettings,
    PhraseSettings,
    PiiSettings,
    SecretSettings,
)
from tools.site.tables import table

HERE = Path(sluicegate.gateway.stage.__file__).parents[2]
"""Where the packages are installed."""
HEAD = """# Settings

Made from the dataclasses that read the configuration, so that it says what the gateway does.
[Configuration](../configuration.md) tells how the tables go together, with examples. A value that does not fit is
refused with the words of the second column; so is a name that is not here, with the nearest that is.
"""
RULES = {
    "blocklist": PhraseSettings,
    "patterns": PatternSettings,
    "pii": PiiSettings,
    "secrets": SecretSettings,
}
READ_BY_HAND: Mapping[tuple[str, str], tuple[type, ...]] = {
    **{("moderate", name): (kind, OutputSettings) for name, kind in RULES.items()},
    **{("screen", name): (kind, InputSettings) for name, kind in RULES.items()},
    ("assemble", "chat-template"): (ChatTemplateSettings,),
    ("generate", "encoders"): (EncoderSettings,),
    ("generate", "engine"): (EngineSettings,),
    ("route", "tiers"): (TierSettings,),
}
"""Stages whose factory reads its table itself: what it reads it as."""
FREE_TABLES: Mapping[str, tuple[tuple[str, type], ...]] = {
    "policies": (("policies.NAME", PolicySettings), ("policies.NAME.SLOT.RAIL", RailPolicy)),
}
BELOW: Mapping[type, tuple[tuple[str, type], ...]] = {
    sluicegate.gateway.settings.PromptSettings: (('prompts.templates."NAME@VERSION"', TemplateSettings),),
}
"""Tables that a setting holds as it was written, and a class of their own reads."""

NAMED = (EngineSettings,)
"""Whose lists are written as tables by name."""


class StageList:
    """A registry that only writes down what is registered."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], tuple[type, ...]] = {}

    def add(self, slot: str, name: str, factory: Any, *, api_version: int = 0) -> None:
        kinds = (factory.kind,) if isinstance(factory, StageOfSettings) else READ_BY_HAND.get((slot, name), ())
        if not kinds:
            raise LookupError(f"say in READ_BY_HAND what the settings of {slot}/{name} are read as")
        self.found[slot, name] = tuple(kind for kind in kinds if kind is not NoSettings)

    def build(self, slot: str, name: str, settings: Mapping[str, Any]) -> Any:
        raise NotImplementedError("a list of stages builds none")


def page() -> str:
    lines = [HEAD]
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        if name != "stages":
            lines += _setting_of_gateway(name, hint)
    lines.append("## Stages\n\nOf `[stages.SLOT.NAME]`, for the stages that `[pipeline]` names.\n")
    for (slot, name), kinds in stages().items():
        lines += _described(f"stages.{slot}.{name}", kinds, level=3)
    return "\n".join(lines)


def stages() -> dict[tuple[str, str], tuple[type, ...]]:
    """Return slot and name of each built-in stage, and the dataclasses that its table is read as."""
    settings, found = load(None, {}), StageList()
    for package in PACKAGES:
        package.register(found)
    books = Accounts(settings.accounts, settings.keys)
    sluicegate.gateway.stage.register(found, settings, Metrics(), books)
    return found.found


def _setting_of_gateway(name: str, hint: Any) -> Iterator[str]:
    kind = _dataclass_in(hint)
    if kind is not None:
        yield from _described(name, (kind,), level=2, many=get_origin(hint) is tuple)
    for where, below in FREE_TABLES.get(name, ()):
        yield from _described(where, (below,), level=2)
    if kind is None and name not in FREE_TABLES:
        yield f"## {name}\n\n{documented(Settings).get(name, '')}\n"


def _described(where: str, kinds: tuple[type, ...], level: int, many: bool = False) -> Iterator[str]:
    """Yield the table of `[where]` (`many`: of each `[[where]]`), and those of the tables in it, each below."""
    yield f"{'#' * level} `[[{where}]]`\n" if many else f"{'#' * level} `[{where}]`\n"
    if not kinds:
        yield "Takes no settings.\n"
        return
    yield from (f"{inspect.cleandoc(kind.__doc__ or '')}\n" for kind in kinds if _is_told(kind))
    rows = [(field, kind) for kind in kinds for field in fields(kind)]
    yield from table(("name", "takes", "default", "meaning"), (_row(field, kind) for field, kind in rows))
    for field, kind in rows:
        inner = get_type_hints(kind, include_extras=True)[field.name]
        if (below := _dataclass_in(inner)) is not None:
            named = kind in NAMED or _is_mapping(_plain(inner))
            place = f"{where}.{field.name}{'.NAME' if named else ''}"
            yield from _described(place, (below,), level, many=not named and get_origin(_plain(inner)) is tuple)
    for kind in kinds:
        for place, below in BELOW.get(kind, ()):
            yield from _described(place, (below,), level)


def _row(field: Field[Any], kind: type) -> tuple[str, str, str, str]:
    hint = get_type_hints(kind, include_extras=True)[field.name]
    return f"`{field.name}`", in_words(hint), _default(field), documented(kind).get(field.name, "")


def _default(field: Field[Any]) -> str:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    if default is MISSING:
        return "must be given"
    if default is None or default in ("", (), {}) or is_dataclass(default):
        return "none"
    if isinstance(default, tuple):
        return ", ".join("a table with its defaults" if is_dataclass(one) else f"`{one}`" for one in default)
    if isinstance(default, str) and default.startswith(str(HERE)):
        return f"the package's `{Path(default).name}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _dataclass_in(hint: Any) -> type | None:
    """Return the dataclass that a hint is, lists, or maps to."""
    if is_dataclass(hint):
        return hint if isinstance(hint, type) else None
    return next((found for inner in get_args(hint) if (found := _dataclass_in(inner)) is not None), None)


def _plain(hint: Any) -> Any:
    """Return a hint without `None`."""
    rest = [inner for inner in get_args(hint) if inner is not type(None)]
    return rest[0] if type(None) in get_args(hint) else hint


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_told(kind: type) -> bool:
    """Return whether somebody wrote the docstring of `kind`; `dataclass` makes one of the signature."""
    return bool(kind.__doc__) and not str(kind.__doc__).startswith(f"{kind.__name__}(")


@cache
def documented(kind: type) -> Mapping[str, str]:
    """Return the sentences under the fields of a dataclass and of those that it comes from, by field."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(definition, ast.ClassDef)
        body = definition.body
        for before, after in itertools.pairwise(body):
            match before, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                    found[name] = " ".join(str(text).split())
    return found
