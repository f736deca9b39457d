"""Register the models of an engine by name and alias. Used on the event loop alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.plugins import NotFound, RequestError, ServedModel


class ModelRegistry:
    """Maps names to cores, and names of adapters to the core of their base model. Removing a model removes its adapters
    and aliases."""

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
        """Return the core of a model, or of an adapter's base. Raises `NotFound` listing the loaded names."""
        adapter = self.adapter(name)
        core = self._cores.get(self._own(name) if adapter is None else adapter.base)
        if core is None:
            known = ", ".join(sorted([*self._cores, *self._adapters])) or "none"
            raise NotFound(f"there is no model {name!r} here; loaded: {known}", param="model", code="model_not_found")
        return core

    def adapter(self, name: str) -> Adapter | None:
        """Return the adapter of this name or alias, or None."""
        return self._adapters.get(self._own(name))

    def adapters_of(self, base: str) -> list[Adapter]:
        return [adapter for adapter in self._adapters.values() if adapter.base == base]

    def refuse_taken(self, name: str, aliases: Iterable[str] = (), *, replace: bool = False, adapter: bool) -> None:
        """Raise `RequestError` where a name or alias belongs to another model, or the model is loaded and `replace` is
        False. A model cannot replace an adapter, nor an adapter a model."""
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
        """Register `core` under its model's name and `aliases`; return the core it replaces, if any."""
        name = core.model.name
        before = self._cores.get(name)
        self._cores[name] = core
        self._call(name, aliases)
        return before

    def put_adapter(self, adapter: Adapter, aliases: Iterable[str] = ()) -> Adapter | None:
        """Register `adapter` under its name and `aliases`; return the adapter it replaces, if any."""
        before = self._adapters.get(adapter.name)
        self._adapters[adapter.name] = adapter
        self._call(adapter.name, aliases)
        return before

    def renew_adapters(self, adapters: Iterable[Adapter]) -> None:
        """Replace adapters by newly loaded ones of the same names."""
        self._adapters |= {adapter.name: adapter for adapter in adapters}

    def exchange(self, old: EngineCore, new: EngineCore) -> bool:
        """Replace `old` by `new` under the same name and aliases; return False if `old` is no longer registered."""
        name = old.model.name
        if self._cores.get(name) is not old:
            return False
        self._cores[name] = new
        return True

    def renew(self, make: Callable[[EngineCore], EngineCore]) -> None:
        """Replace each core by the one that `make` returns for it."""
        self._cores = {name: make(core) for name, core in self._cores.items()}

    def take_out(self, name: str) -> EngineCore | Adapter:
        """Unregister a model with its adapters, or one adapter, and return it. Raises `NotFound` for an unknown name or
        an alias."""
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
        """Set the aliases of a model, dropping earlier ones."""
        self._aliases = {alias: owner for alias, owner in self._aliases.items() if owner != name}
        self._aliases |= {alias: name for alias in aliases if alias != name}
