"""Which models an engine serves, by name and by alias. Lives on the event loop; the engine thread never looks here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from engine.core import EngineCore
from plugins import NotFound, RequestError, ServedModel


class Fleet:
    """Names lead to cores. An alias is another name for a model, and goes when its model goes."""

    def __init__(self) -> None:
        self._cores: dict[str, EngineCore] = {}
        self._aliases: dict[str, str] = {}

    @property
    def cores(self) -> list[EngineCore]:
        return list(self._cores.values())

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """By every name that requests may use."""
        served: dict[str, ServedModel] = {name: core.model for name, core in self._cores.items()}
        return served | {alias: self._cores[name].model for alias, name in self._aliases.items()}

    def find(self, name: str) -> EngineCore:
        """Raises `NotFound` with the names there are."""
        core = self._cores.get(self._aliases.get(name, name))
        if core is None:
            known = ", ".join(sorted(self._cores)) or "none"
            raise NotFound(f"there is no model {name!r} here; loaded: {known}", param="model", code="model_not_found")
        return core

    def refuse_taken(self, name: str, aliases: Iterable[str] = (), *, replace: bool = False) -> None:
        """Raises `RequestError` where a name is already another model's, or the model is there and not to be
        replaced."""
        if name in self._cores and not replace:
            raise RequestError(
                f"model {name!r} is loaded already; ask to replace it, remove it first, or give the new one a name",
                param="name",
                code="model_already_loaded",
            )
        owners = {alias: owner for alias, owner in self._aliases.items() if owner != name}
        owners |= {other: other for other in self._cores if other != name}
        for wanted in (name, *aliases):
            if wanted in owners:
                raise RequestError(
                    f"the name {wanted!r} leads to model {owners[wanted]!r}; choose another name or alias",
                    param="name",
                    code="model_already_loaded",
                )

    def put(self, core: EngineCore, aliases: Iterable[str] = ()) -> EngineCore | None:
        """From now on requests go to `core`; returns the core that had its name before."""
        name = core.model.name
        before = self._cores.get(name)
        self._drop_aliases(name)
        self._cores[name] = core
        self._aliases |= {alias: name for alias in aliases if alias != name}
        return before

    def renew(self, make: Callable[[EngineCore], EngineCore]) -> None:
        """Put a new core in the place of each."""
        self._cores = {name: make(core) for name, core in self._cores.items()}

    def take_out(self, name: str) -> EngineCore:
        """No new request finds the model. Raises `NotFound` for names that are not a model's own."""
        if name in self._aliases:
            raise NotFound(f"{name!r} is an alias of model {self._aliases[name]!r}; name the model", param="model")
        core = self.find(name)
        self._drop_aliases(name)
        del self._cores[name]
        return core

    def _drop_aliases(self, name: str) -> None:
        self._aliases = {alias: owner for alias, owner in self._aliases.items() if owner != name}
