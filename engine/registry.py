"""Register the models an engine serves, by name and alias. Used on the event loop; the engine thread never looks
here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.plugins import NotFound, RequestError, ServedModel


class ModelRegistry:
    """Names lead to cores, those of adapters to the core of their base model. An alias is another name for either and
    goes when it goes; adapters go when their model goes."""

    def __init__(self) -> None:
        self._cores: dict[str, EngineCore] = {}
        self._adapters: dict[str, Adapter] = {}
        self._aliases: dict[str, str] = {}

    @property
    def cores(self) -> list[EngineCore]:
        return list(self._cores.values())

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """Return the models by every name that requests may use."""
        served: dict[str, ServedModel] = {name: core.model for name, core in self._cores.items()}
        served |= self._adapters
        return served | {alias: served[name] for alias, name in self._aliases.items()}

    @property
    def adapters(self) -> list[Adapter]:
        return list(self._adapters.values())

    @property
    def adapter_count(self) -> int:
        return len(self._adapters)

    def find(self, name: str) -> EngineCore:
        """Return the core that computes a model or adapter. Raises `NotFound` with the names there are."""
        adapter = self.adapter(name)
        core = self._cores.get(self._own(name) if adapter is None else adapter.base)
        if core is None:
            known = ", ".join(sorted([*self._cores, *self._adapters])) or "none"
            raise NotFound(f"there is no model {name!r} here; loaded: {known}", param="model", code="model_not_found")
        return core

    def adapter(self, name: str) -> Adapter | None:
        """Return the adapter of this name; None = it is no adapter's."""
        return self._adapters.get(self._own(name))

    def adapters_of(self, base: str) -> list[Adapter]:
        return [adapter for adapter in self._adapters.values() if adapter.base == base]

    def refuse_taken(self, name: str, aliases: Iterable[str] = (), *, replace: bool = False, adapter: bool) -> None:
        """Raise `RequestError` where a name is another model's, or the model is there and not to be replaced, or a
        model is to replace an adapter, or the other way round."""
        same, others = (self._adapters, self._cores) if adapter else (self._cores, self._adapters)
        if name in same and not replace:
            raise RequestError(
                f"model {name!r} is loaded already; ask to replace it, remove it first, or give the new one a name",
                param="name",
                code="model_already_loaded",
            )
        owners = {alias: owner for alias, owner in self._aliases.items() if owner != name}
        owners |= {other: other for other in same if other != name} | {other: other for other in others}
        for wanted in (name, *aliases):
            if wanted in owners:
                raise RequestError(
                    f"the name {wanted!r} leads to model {owners[wanted]!r}; choose another name or alias",
                    param="name",
                    code="model_already_loaded",
                )

    def put(self, core: EngineCore, aliases: Iterable[str] = ()) -> EngineCore | None:
        """Send requests to `core` from now on; returns the core that had its name before."""
        name = core.model.name
        before = self._cores.get(name)
        self._cores[name] = core
        self._call(name, aliases)
        return before

    def put_adapter(self, adapter: Adapter, aliases: Iterable[str] = ()) -> Adapter | None:
        """Compute requests of its name with `adapter` from now on; returns the adapter that had the name before."""
        before = self._adapters.get(adapter.name)
        self._adapters[adapter.name] = adapter
        self._call(adapter.name, aliases)
        return before

    def renew_adapters(self, adapters: Iterable[Adapter]) -> None:
        """Replace adapters by those read again for another model, under the same names."""
        self._adapters |= {adapter.name: adapter for adapter in adapters}

    def exchange(self, old: EngineCore, new: EngineCore) -> bool:
        """Send requests to `new` that would go to `old`, by the same names; False where `old` has no name any more."""
        name = old.model.name
        if self._cores.get(name) is not old:
            return False
        self._cores[name] = new
        return True

    def renew(self, make: Callable[[EngineCore], EngineCore]) -> None:
        """Replace each core by a new one."""
        self._cores = {name: make(core) for name, core in self._cores.items()}

    def take_out(self, name: str) -> EngineCore | Adapter:
        """Hide a model and its adapters, or one adapter, from new requests, and return it. Raises `NotFound` for names
        that are not a model's own."""
        if name in self._aliases:
            raise NotFound(f"{name!r} is an alias of model {self._aliases[name]!r}; name the model", param="model")
        core = self.find(name)
        self._call(name)
        if name in self._adapters:
            return self._adapters.pop(name)
        for adapter in self.adapters_of(name):
            self._call(adapter.name)
            del self._adapters[adapter.name]
        del self._cores[name]
        return core

    def _own(self, name: str) -> str:
        return self._aliases.get(name, name)

    def _call(self, name: str, aliases: Iterable[str] = ()) -> None:
        """Give a model these aliases, and no others."""
        self._aliases = {alias: owner for alias, owner in self._aliases.items() if owner != name}
        self._aliases |= {alias: name for alias in aliases if alias != name}
