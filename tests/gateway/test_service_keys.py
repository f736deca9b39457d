"""Keys of other services: an environment variable that is named and not set is a mistake, wherever it is named."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.plugins import ConfigurationError, RegistryLike
from sluicegate.plugins.testing import ScriptedModel, Unconstrained

FAR = "https://far.example"
PLACES: dict[str, dict[str, Any]] = {
    "[stages.retrieve.http] key_env": {"stages": {"retrieve": {"http": {"url": FAR, "key_env": "FAR_KEY"}}}},
    "[stages.retrieve.vector-set] embedder_key_env": {
        "stages": {"retrieve": {"vector-set": {"embedder": f"{FAR}#m", "embedder_key_env": "FAR_KEY"}}}
    },
    "[retrieval] rerank_key_env": {"retrieval": {"rerank": f"{FAR}#m", "rerank_key_env": "FAR_KEY"}},
    "[stages.recall.memory.semantic] embedder_key_env": {
        "stages": {"recall": {"memory": {"semantic": {"embedder": f"{FAR}#m", "embedder_key_env": "FAR_KEY"}}}}
    },
    "[stages.recall.memory.semantic] judge_key_env": {
        "stages": {"recall": {"memory": {"semantic": {"judge": f"{FAR}#m", "judge_key_env": "FAR_KEY"}}}}
    },
    "[stages.moderate.guard-service] key_variable": {
        "stages": {"moderate": {"guard-service": {"url": FAR, "form": "moderations", "key_variable": "FAR_KEY"}}}
    },
    "[stages.generate.upstream.models] api_key_env": {
        "stages": {"generate": {"upstream": {"models": {"far": {"url": FAR, "api_key_env": "FAR_KEY"}}}}}
    },
}
WHY = {
    None: "names the environment variable FAR_KEY, which is not set; set it, or leave",
    "": "which is not set",
    " \n": "which is not set",
    "key\n": "whose value cannot be sent as a key: only printable ASCII without space around it can",
    "schlüssel": "cannot be sent as a key",
}


def composed(tables: dict[str, Any], environ: dict[str, str]) -> None:
    """Compose a gateway that runs what `tables` configure."""
    slots: dict[str, list[str]] = {"constrain": ["none"], "generate": ["scripted"], "screen": [], "moderate": []}
    for slot, stages in tables.get("stages", {}).items():
        slots[slot] = [*stages]

    def register(registry: RegistryLike) -> None:
        registry.add("generate", "scripted", lambda settings: ScriptedModel())
        registry.add("constrain", "none", lambda settings: Unconstrained())

    compose(load(overrides={"pipeline": slots, **tables}), environ, registers=(register,))


@pytest.mark.parametrize("value", WHY)
@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_is_named_and_not_there_is_a_mistake(
    place: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked without its key, a service answers nobody, or whoever it lets in without one."""
    environ = {} if value is None else {"FAR_KEY": value}
    monkeypatch.delenv("FAR_KEY", raising=False)
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(ConfigurationError) as caught:
        composed(PLACES[place], environ)
    assert caught.value.message.startswith(place)
    assert WHY[value] in caught.value.message
    assert not value or value not in caught.value.message


@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_is_there_is_taken(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_KEY", "a-key")
    composed(PLACES[place], {"FAR_KEY": "a-key"})
