"""Dashboards and rules are tried: every query runs in a real Prometheus that scraped a real gateway."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway, running
from tests.waiting import LIMIT_S, until

FOLDER = Path(__file__).resolve().parent.parent.parent / "deploy" / "observability"
DASHBOARDS = sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))
RULES = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="no Prometheus (Debian: apt-get install prometheus)")
SETTINGS: dict[str, Any] = {
    "keys": [{"id": "k", "key": "key-for-tests", "team": "blue"}],
    "pipeline": {"screen": ["secrets", "blocklist"], "moderate": ["secrets", "pii"]},
    "stages": {"screen": {"blocklist": {"phrases": ["project nightingale"], "action": "block"}}},
}
OPTIONAL = {
    "sluicegate_export_traces_dropped_total",  # with a collector of traces
    "sluicegate_generate_upstream_breakers_open",  # with other servers
    "sluicegate_recall_redis_store_open",  # with Redis as a cache
    "sluicegate_certificate_ends_seconds",  # where HTTPS is spoken
    "sluicegate_generate_upstream_certificate_ends_seconds",  # with other servers, behind HTTPS
    "sluicegate_server_certificate_ends_seconds",  # with anything else that is reached over TLS
    "sluicegate_disk_free_bytes",  # with anything that is written to a disk
}
"""Exposed by gateways that are configured so; `test_metrics_of_optional_parts` makes one."""
HEADS = {"authorization": "Bearer key-for-tests"}


def panels() -> list[Any]:
    found = [json.loads(path.read_text("utf-8"))["panels"] for path in DASHBOARDS]
    return [panel for some in found for panel in some if panel["type"] != "row"]


def queries() -> list[tuple[str, str]]:
    """Return (title, PromQL) of every target, with variables replaced as Grafana does."""
    targets = [
        (p["title"], t["expr"]) for p in panels() for t in p["targets"] if t["datasource"]["type"] == "prometheus"
    ]
    return [(title, e.replace("$__rate_interval", "15s").replace("$model", ".*")) for title, e in targets]


def exercise(gateway: RunningGateway) -> None:
    """Structured and free answers, streams, cached answers, and one that a rail stops."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    texts = ["Clara lives in Aarhus.", "Clara lives in Aarhus.", "Ada lives in London, London.", "project nightingale"]
    for at, text in enumerate(texts):
        body: dict[str, Any] = {"model": "bundled", "messages": [{"role": "user", "content": text}], "stream": at == 0}
        httpx.post(f"{gateway.url}/v1/chat/completions", json={**body, "response_format": shape}, headers=HEADS)


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with running(SETTINGS) as found:
        exercise(found)
        yield found


@pytest.fixture(scope="module")
def prometheus(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run Prometheus; yield its URL once it has scraped the gateway before and after more requests."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    config["global"]["scrape_interval"] = "500ms"
    config["rule_files"] = [str(FOLDER / "alerts.yml")]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [gateway.url.removeprefix("http://")]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [str(PROMETHEUS), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    process = subprocess.Popen([*command, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)
    url = f"http://{address}"
    try:
        wait_for(url, "up == 1")
        exercise(gateway)
        wait_for(url, "sum(sluicegate_requests_total) >= 8 and sum(rate(sluicegate_requests_total[15s])) > 0")
        yield url
    finally:
        process.terminate()
        process.wait(10)


def ask(url: str, query: str) -> Any:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, timeout=LIMIT_S)
    return answer.json() | {"http": answer.status_code}


def wait_for(url: str, query: str, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if ask(url, query)["data"]["result"]:
                return
        except (httpx.HTTPError, KeyError, ValueError):  # while it starts it says so in words, not in JSON
            pass
        assert time.monotonic() < deadline, f"Prometheus did not answer {query}"
        time.sleep(0.1)


@needs_prometheus
@pytest.mark.parametrize(("title", "query"), queries())
def test_every_query_of_a_dashboard_answers(prometheus: str, title: str, query: str) -> None:
    found = ask(prometheus, query)
    assert found["status"] == "success", found
    assert found["data"]["result"], f"{title}: {query} is empty"


@needs_prometheus
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_every_alert_is_evaluated(prometheus: str, rule: dict[str, Any]) -> None:
    """Prometheus has loaded it and found nothing wrong; the gateway is well, so nothing fires."""
    assert ask(prometheus, rule["expr"])["status"] == "success"
    loaded = httpx.get(f"{prometheus}/api/v1/rules").json()["data"]["groups"][0]["rules"]
    [mine] = [r for r in loaded if r["name"] == rule["alert"]]
    assert mine["health"] in ("ok", "unknown"), mine
    assert mine["state"] != "firing"


@needs_prometheus
def test_the_rules_pass_promtool() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool (Debian: apt-get install prometheus)")
    done = subprocess.run([promtool, "check", "rules", FOLDER / "alerts.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_that_is_asked_for_is_one_that_a_gateway_exposes(gateway: RunningGateway) -> None:
    """A renamed metric breaks this, with or without Prometheus at hand."""
    text = httpx.get(f"{gateway.url}/metrics").text
    exposed = {re.split(r"[ {]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}
    asked = [query for _, query in queries()] + [rule["expr"] for rule in RULES]
    named = {name for query in asked for name in re.findall(r"\b(?:sluicegate|gen_ai_server)_\w+", query)}
    assert named - exposed - OPTIONAL == set()


def test_metrics_of_optional_parts_are_called_as_the_alerts_call_them(tmp_path: Path) -> None:
    far = {"models": {"far": {"url": "http://127.0.0.1:9/v1", "allow_private": True}}}
    stages = {"generate": {"upstream": far}, "recall": {"redis": {"url": "redis://127.0.0.1:9/0"}}}
    pipeline = {"generate": ["scripted", "upstream"], "recall": ["redis"]}
    with TestApp(pipeline=pipeline, stages=stages, settings={"batches": {"path": str(tmp_path)}}) as app:
        until(lambda: "sluicegate_disk_free_bytes{" in app.client.get("/metrics").text)
        text = app.client.get("/metrics").text
        exposed = {re.split(r"[ {]", line)[0] for line in text.splitlines()}
        shown = "sluicegate_generate_upstream_certificate_ends_seconds"
        elsewhere = {"sluicegate_export_traces_dropped_total", semconv.METRIC_CERTIFICATE_ENDS, shown}
        elsewhere |= {semconv.METRIC_SERVER_CERTIFICATE_ENDS}
        assert OPTIONAL - exposed <= elsewhere


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Path) -> None:
    """Numbers are unique, nothing overlaps, and every source is one that is provisioned."""
    board = json.loads(path.read_text("utf-8"))
    sources = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/sources.yml").read_text("utf-8"))
    known = {source["uid"] for source in sources["datasources"]}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        box = panel["gridPos"]
        cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert box["x"] + box["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert {target["datasource"]["uid"] for target in panel.get("targets", [])} <= known


def test_what_the_compose_file_mounts_is_there() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yml").read_text("utf-8"))
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (FOLDER / source).exists(), source
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_every_part_of_the_collector_is_defined() -> None:
    config = yaml.safe_load((FOLDER / "collector.yml").read_text("utf-8"))
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
