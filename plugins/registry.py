"""Names of stages and their factories. Built-in and third-party plug-ins use the same entry, `register(registry)`.

Installed is not enabled: discovery fills the registry, configuration selects the stages and their order.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sluicegate.plugins.contract.names import API_VERSION, SLOTS, SlotName
from sluicegate.plugins.contract.optional import (
    OPTIONAL,
    DescribedRail,
    Lifecycle,
    StatsReporter,
    TroubleReporter,
    methods_of,
)
from sluicegate.plugins.contract.registration import StageFactory
from sluicegate.plugins.contract.verdicts import RailProperties
from sluicegate.plugins.errors import ConfigurationError, PluginError

GROUP = "sluicegate.plugins"
ENDINGS = (SystemExit, GeneratorExit, CancelledError)
"""What a plug-in may raise that would end the gateway, or the task in which it is loaded."""
METHODS: Mapping[SlotName, Mapping[str, tuple[str, ...]]] = {
    "admit": {"admit": ("request", "caller")},
    "screen": {"screen": ("request", "caller")},
    "route": {"route": ("request", "caller", "models")},
    "retrieve": {"retrieve": ("request", "caller")},
    "assemble": {"assemble": ("request", "model")},
    "recall": {"look_up": ("key",), "store": ("key", "answers")},
    "constrain": {"compile": ("constraint", "model")},
    "generate": {"generate": ("job",), "stats": ()},
    "moderate": {"open": ("request", "caller", "channel")},
    "record": {"record": ("outcome",)},
}
"""The methods of a stage of each slot, with their parameters in order; see the Protocols of `plugins.contract`."""
ATTRIBUTES: Mapping[SlotName, str] = {"constrain": "unconstrained", "generate": "models", "moderate": "name"}
"""Attributes that it also has."""


@dataclass(frozen=True, slots=True)
class Registered:
    slot: SlotName
    name: str
    factory: StageFactory
    source: str
    """Package or entry point that registered it, for messages and `sluicegate plugins list`."""


class Registry:
    """Mutable until start-up ends; read-only by convention afterwards."""

    def __init__(self) -> None:
        self._stages: dict[tuple[str, str], Registered] = {}
        self._source = "built-in"
        self._built: set[tuple[str, str]] = set()

    def add(self, slot: SlotName, name: str, factory: StageFactory, *, api_version: int = API_VERSION) -> None:
        """Add a stage's factory. Raises `PluginError` on an unknown slot, another contract version, or a name that is
        taken."""
        if slot not in SLOTS:
            raise PluginError(f"{self._source}: there is no slot {slot!r}; the slots are {', '.join(SLOTS)}")
        if api_version != API_VERSION:
            raise PluginError(
                f"{self._source}: stage {name!r} is written for contract version {api_version}, "
                f"this gateway speaks version {API_VERSION}; install a matching release of the plug-in"
            )
        taken = self._stages.get((slot, name))
        if taken is not None:
            raise PluginError(f"{self._source}: stage {name!r} of slot {slot!r} is taken by {taken.source}")
        self._stages[slot, name] = Registered(slot, name, factory, self._source)

    def register_from(self, source: str, register: Callable[[Registry], None]) -> None:
        """Call a plug-in's `register`. An exception in it becomes a `PluginError` that names the plug-in, and none of
        its stages stays registered: half a plug-in is harder to explain than none."""
        before = dict(self._stages)
        self._source = source
        try:
            register(self)
        except PluginError:
            self._stages = before
            raise
        except (Exception, *ENDINGS) as error:
            self._stages = before
            raise PluginError(f"{source}: register() failed with {type(error).__name__}: {error}") from error
        finally:
            self._source = "built-in"

    def names(self, slot: str) -> list[str]:
        return sorted(name for s, name in self._stages if s == slot)

    def all(self) -> list[Registered]:
        return sorted(self._stages.values(), key=lambda r: (SLOTS.index(r.slot), r.name))

    def build(self, slot: SlotName, name: str, settings: Mapping[str, Any]) -> Any:
        """Build a stage. Raises `ConfigurationError` for an unknown name, listing the registered ones, and for settings
        that the factory refuses; `PluginError` where the factory fails or its stage does not fit the slot."""
        found = self._stages.get((slot, name))
        if found is None:
            known = ", ".join(self.names(slot)) or "none"
            raise ConfigurationError(f"no stage {name!r} is installed for slot {slot!r}; installed: {known}")
        try:
            stage = found.factory(settings)
        except (ConfigurationError, PluginError):
            raise
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"settings of stage {name!r} (slot {slot!r}) are wrong: {error}") from error
        except (Exception, *ENDINGS) as error:
            raise PluginError(
                f"{found.source}: the factory of stage {name!r} (slot {slot!r}) failed with "
                f"{type(error).__name__}: {error}; mend the plug-in or take the stage out of [pipeline]"
            ) from error
        _check_required(found, stage)
        _check_optional(found, stage)
        self._built.add((slot, name))
        return stage

    def was_built(self, slot: str, name: str) -> bool:
        """Return whether a stage of this name was built, for the configuration or for a stage that wraps it."""
        return (slot, name) in self._built


def discover(registry: Registry, found: Iterable[EntryPoint] | None = None) -> list[str]:
    """Register every installed plug-in of the entry-point group. One that fails to import does not stop the others: its
    message is returned, and using one of its stages in the configuration raises that error."""
    complaints = []
    for entry in found if found is not None else entry_points(group=GROUP):
        try:
            registry.register_from(entry.name, _load(entry))
        except PluginError as error:
            complaints.append(error.message)
    return complaints


def _check_required(found: Registered, stage: object) -> None:
    missing = [method for method in METHODS[found.slot] if not callable(getattr(stage, method, None))]
    if missing:
        raise PluginError(
            f"{found.source}: the factory of stage {found.name!r} made {type(stage).__name__}, which has no "
            f"{missing[0]}(); a stage of slot {found.slot!r} needs {', '.join(f'{m}()' for m in METHODS[found.slot])}"
        )
    attribute = ATTRIBUTES.get(found.slot)
    if attribute is not None and not hasattr(stage, attribute):
        raise PluginError(
            f"{found.source}: the factory of stage {found.name!r} made {type(stage).__name__}, which has no "
            f"`{attribute}`; a stage of slot {found.slot!r} needs it"
        )
    if found.slot == "moderate" and getattr(stage, "name", None) != found.name:  # verdicts are told apart by it
        raise PluginError(
            f"{found.source}: the rail calls itself {getattr(stage, 'name', None)!r}, but is registered as "
            f"{found.name!r}; set its `name` to {found.name!r}"
        )


def _check_optional(found: Registered, stage: object) -> None:
    """Refuse a stage that implements part of an optional Protocol, which would otherwise be silently ignored."""
    for protocol in (Lifecycle, StatsReporter, TroubleReporter, *OPTIONAL[found.slot]):
        names = methods_of(protocol)
        given = {name: getattr(stage, name) for name in names if hasattr(stage, name)}
        whole = len(given) == len(names) and all(map(callable, given.values()))
        if given and not whole:
            raise PluginError(
                f"{found.source}: {type(stage).__name__}, made for stage {found.name!r}, is no whole "
                f"{protocol.__name__}: that has the methods {', '.join(f'{name}()' for name in names)}"
            )
    said = stage.properties if isinstance(stage, DescribedRail) else RailProperties()
    if found.slot in ("screen", "moderate") and not isinstance(said, RailProperties):
        kind = type(said).__name__
        raise PluginError(f"{found.source}: `properties` of {found.name!r} must be a RailProperties, found {kind}")


def _load(entry: EntryPoint) -> Callable[[Registry], None]:
    try:
        register = entry.load()
    except (Exception, *ENDINGS) as error:  # a module that calls sys.exit() must not end the gateway
        raise PluginError(f"{entry.name}: cannot be imported ({type(error).__name__}: {error})") from error
    if not callable(register):
        raise PluginError(f"{entry.name}: the entry point must name a function register(registry), found {register!r}")
    return register  # type: ignore[no-any-return]
