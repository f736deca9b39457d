"""One configuration as two deployments: nothing that an operator set is lost between them, or done twice."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.config import load
from sluicegate.gateway.ray_serve.messages import EngineModel
from sluicegate.gateway.ray_serve.parts import check_for_ray, engine_part, gateway_part, own_folder, unshared
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError

MODELS = {"bundled": EngineModel("v1", 512)}
ADDRESS, KEY = "http://127.0.0.1:1/v1", "ENGINE_KEY"
FULL: dict[str, Any] = {
    "keys": [{"id": "a", "key": "k"}],
    "pipeline": {"recall": ["memory"], "moderate": ["secrets", "blocklist"], "screen": ["secrets"]},
    "stages": {
        "generate": {"engine": {"models": ["bundled"]}},
        "moderate": {"blocklist": {"phrases": ["x"]}},
    },
    "accounts": {"url": "redis://nowhere"},
    "routing": {"models": {"m": {"weights": {"bundled": 1.0}}}},
    "retrieval": {},
}


def test_a_gateway_keeps_everything_but_the_engine() -> None:
    settings = load(overrides=FULL)
    gateway = gateway_part(settings, MODELS, ADDRESS, KEY)
    changed = {one.name for one in fields(Settings) if getattr(gateway, one.name) != getattr(settings, one.name)}
    assert changed == {"pipeline", "stages"}
    assert gateway.pipeline.generate == ("upstream",)
    assert gateway.of_stage("moderate", "blocklist") == {"phrases": ["x"]}
    far = gateway.of_stage("generate", "upstream")["models"]["bundled"]
    assert (far["url"], far["context_length"], far["version"], far["api_key_env"]) == (ADDRESS, 512, "v1", KEY)


def test_an_engine_charges_screens_caches_and_logs_nothing() -> None:
    engine = engine_part(load(overrides=FULL))
    slots = engine.pipeline
    assert (slots.admit, slots.screen, slots.recall, slots.moderate, slots.generate) == ((), (), (), (), ("engine",))
    assert slots.record == ("metrics",)
    assert not engine.keys
    assert not engine.accounts.url
    assert not engine.routing.models
    assert engine.of_stage("generate", "engine") == {"models": ["bundled"]}


def test_models_of_other_servers_stay_beside_those_of_the_engines() -> None:
    other = {"url": "https://example.com/v1"}
    both = {"engine": {"models": ["bundled"]}, "upstream": {"models": {"far": other}}}
    settings = load(overrides={"pipeline": {"generate": ["engine", "upstream"]}, "stages": {"generate": both}})
    gateway = gateway_part(settings, MODELS, ADDRESS, KEY)
    assert gateway.pipeline.generate == ("upstream",)
    assert set(gateway.of_stage("generate", "upstream")["models"]) == {"far", "bundled"}
    assert gateway.of_stage("generate", "upstream")["models"]["far"] == other


def test_without_models_of_its_own_a_gateway_is_as_configured() -> None:
    stages = {"generate": {"upstream": {"models": {"far": {"url": "https://example.com/v1"}}}}}
    settings = load(overrides={"pipeline": {"generate": ["upstream"]}, "stages": stages})
    assert gateway_part(settings, {}, "", KEY) == settings


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"grpc": {"enabled": True}}, "grpc"),
        ({"accounts": {"path": "a"}}, r"\[accounts\] path is kept by one gateway alone"),
        ({"review": {"path": "a"}}, r"\[review\] path"),
        ({"routing": {"state": "a"}}, r"\[routing\] state"),
        ({"server": {"tls_client_ca": "a"}}, "tls_client_ca"),
    ],
)
def test_what_replicas_cannot_do_is_refused_before_any_is_started(tables: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        check_for_ray(load(overrides=tables))


@pytest.mark.parametrize("table", [{"accounts": {"path": "a"}}, {"review": {"path": "a"}}])
def test_one_gateway_alone_may_keep_files(table: dict[str, Any]) -> None:
    check_for_ray(load(overrides={**table, "ray": {"gateway": {"replicas": 1}}}))


def test_what_is_not_shared_is_said() -> None:
    assert len(unshared(load())) == 2
    assert len(unshared(load(overrides={"accounts": {"url": "redis://nowhere"}}))) == 1
    assert not unshared(load(overrides={"database": {"url": "postgresql://nowhere/x"}}))
    assert not unshared(load(overrides={"ray": {"gateway": {"replicas": 1}}}))


@pytest.mark.parametrize("table", ["gateway", "engine"])
def test_fewer_at_most_than_at_least_is_refused(table: str) -> None:
    with pytest.raises(ConfigurationError, match="most_replicas is 1 and replicas 3"):
        load(overrides={"ray": {table: {"replicas": 3, "most_replicas": 1}}})


# --- folders of a replica's own -----------------------------------------------------------------------------------

CLAIM = """
import sys
from sluicegate.gateway.ray_serve.parts import own_folder
print(own_folder(sys.argv[1], "x"), flush=True)
sys.stdin.read()
"""


def claiming(folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", CLAIM, str(folder)], stdin=pipe, stdout=pipe, text=True)


def test_a_replica_takes_over_the_folder_of_a_killed_one(tmp_path: Path) -> None:
    """What the killed one had not written down is found there."""
    processes = [claiming(tmp_path), claiming(tmp_path)]
    try:
        first, second = (process.stdout.readline().strip() for process in processes)  # type: ignore[union-attr]
        assert {first, second} == {str(tmp_path / "0"), str(tmp_path / "1")}
        assert own_folder(str(tmp_path), "x") == str(tmp_path / "2")
        processes[0].kill()
        processes[0].wait()
        assert own_folder(str(tmp_path), "x") == first
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_no_folder_stays_none() -> None:
    assert own_folder("", "x") == ""
    assert not os.path.exists("0")
