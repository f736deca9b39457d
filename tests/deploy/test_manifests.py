"""Manifests, compose file and unit: of the forms that their tools know, and true to the gateway that they start."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.gateway.compose import written_folders
from sluicegate.gateway.config import load, secret_files
from sluicegate.gateway.settings import ServerSettings, Settings
from sluicegate.gateway.testing import TestApp

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = sorted(path.parent.name for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"))
VERSIONS = ("1.29", "1.32", "1.34")
"""Of Kubernetes, whose schemas the resources are held against."""
DEFINED_ELSEWHERE = {"ServiceMonitor", "PrometheusRule", "ScaledObject", "InferencePool"}
"""Kinds of operators; their schemas are not at hand, so that only what stands below is checked of them."""
SERVER = ServerSettings()
KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="no kubectl, which renders Kustomize overlays")


@cache
def rendered(overlay: str) -> list[dict[str, Any]]:
    """Render an overlay as `kubectl apply -k` would send it."""
    command = [str(KUBECTL), "kustomize", str(KUBERNETES / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def resources() -> dict[str, dict[str, Any]]:
    """Return every resource as it stands in its file, by path."""
    files = [p for p in KUBERNETES.rglob("*.yaml") if p.name not in ("kustomization.yaml", "adapter-rules.yaml")]
    return {str(path.relative_to(KUBERNETES)): yaml.safe_load(path.read_text("utf-8")) for path in sorted(files)}


def validator() -> Any:
    return pytest.importorskip("kubernetes_validate", reason="schemas of Kubernetes: pip install kubernetes-validate")


def hold_against_schemas(resource: dict[str, Any]) -> None:
    """Strictly: a field that Kubernetes does not know is a slip that it would drop, or refuse."""
    known = validator()
    if resource["kind"] in DEFINED_ELSEWHERE:
        return
    for version in VERSIONS:
        known.validate(resource, version, strict=True)


@pytest.mark.parametrize("path", resources())
def test_a_resource_is_of_the_form_that_kubernetes_knows(path: str) -> None:
    hold_against_schemas(resources()[path])


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_renders_into_resources_that_kubernetes_knows(overlay: str) -> None:
    found = rendered(overlay)
    for resource in found:
        hold_against_schemas(resource)
    kinds = {resource["kind"] for resource in found}
    assert {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap", "ServiceAccount"} <= kinds
    assert kinds & {"HorizontalPodAutoscaler", "ScaledObject"}
    assert {one["metadata"]["namespace"] for one in found if one["kind"] != "Namespace"} == {"sluicegate"}


def test_a_slip_in_a_manifest_is_found() -> None:
    """The check above can fail."""
    slipped = json.loads(json.dumps(resources()["base/deployment.yaml"]))
    slipped["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(validator().ValidationError, match="readinesProbe"):
        hold_against_schemas(slipped)


# --- the pod is true to its gateway -----------------------------------------------------------------------------------


def configured(path: Path, environ: Mapping[str, str] = {}) -> Settings:
    return load(path, environ)


PODS = ["base", *(pytest.param(overlay, marks=needs_kubectl) for overlay in OVERLAYS)]


def pod_of(which: str) -> dict[str, Any]:
    if which == "base":
        return dict(resources()["base/deployment.yaml"]["spec"]["template"]["spec"])
    [deployment] = [one for one in rendered(which) if one["kind"] == "Deployment"]
    return dict(deployment["spec"]["template"]["spec"])


@pytest.mark.parametrize("which", PODS)
def test_a_pod_is_given_the_time_that_its_gateway_needs_to_leave(which: str) -> None:
    """Grace is longer than the phases of a stop; the probe takes the pod out before the listener closes; streams may
    take as long as requests may."""
    pod, server = pod_of(which), configured(KUBERNETES / "base" / "gateway.toml").server
    [container] = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > server.lame_duck_s + server.drain_s
    probe = container["readinessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] + 1) < server.lame_duck_s
    assert server.drain_s >= server.deadline_s > 0
    assert "lifecycle" not in container
    assert [container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")] == [
        "/readyz",
        "/readyz",
        "/healthz",
    ]


@pytest.mark.parametrize("which", PODS)
def test_a_pod_may_do_nothing_but_serve(which: str) -> None:
    pod = pod_of(which)
    [container] = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    held = container["securityContext"]
    assert (held["readOnlyRootFilesystem"], held["allowPrivilegeEscalation"]) == (True, False)
    assert held["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("which", PODS)
def test_a_pod_writes_to_volumes_and_reads_secrets_from_files(which: str) -> None:
    """Whatever the configuration writes lies on a mount that is not read-only; no secret is a variable."""
    [container] = pod_of(which)["containers"]
    mounts = {mount["mountPath"]: not mount.get("readOnly", False) for mount in container["volumeMounts"]}
    for path in written_folders(configured(KUBERNETES / "base" / "gateway.toml")).values():
        assert any(writable and Path(mount) in path.parents for mount, writable in mounts.items()), path
    environ = {one["name"]: one["value"] for one in container["env"]}
    for file in secret_files(environ):
        assert str(file.parent) == "/run/secrets/sluicegate"
        assert mounts[str(file.parent)] is False
    assert not [name for name in environ if re.search("KEY$|URL$|SECRET$|PASSWORD$", name)]


@pytest.mark.parametrize("which", PODS)
def test_the_ports_of_a_pod_its_service_and_its_policy_are_one(which: str) -> None:
    [port] = pod_of(which)["containers"][0]["ports"]
    assert port["containerPort"] == SERVER.port
    [exposed] = resources()["base/service.yaml"]["spec"]["ports"]
    assert exposed["targetPort"] == port["name"] == "http"
    [let_in] = resources()["base/networkpolicy.yaml"]["spec"]["ingress"]
    assert [one["port"] for one in let_in["ports"]] == [port["containerPort"]]
    pool = resources()["components/inference-pool/inferencepool.yaml"]
    assert pool["spec"]["targetPorts"] == [{"number": port["containerPort"]}]


def test_stores_that_the_configuration_names_may_be_reached() -> None:
    egress = resources()["base/networkpolicy.yaml"]["spec"]["egress"]
    open_ports = {port["port"] for rule in egress for port in rule["ports"]}
    urls = re.findall(r"(\w+)://[\w.-]+:(\d+)", (KUBERNETES / "base" / "gateway.toml").read_text("utf-8"))
    assert {int(port) for _, port in urls} <= open_ports
    assert {53, 5432} <= open_ports


def test_what_scales_goes_by_metrics_that_a_gateway_exposes() -> None:
    texts = [
        (KUBERNETES / "components" / name).read_text("utf-8")
        for name in ("hpa/adapter-rules.yaml", "keda/scaledobject.yaml")
    ]
    named = {name for text in texts for name in re.findall(r"\b(?:sluicegate_requests|gen_ai_server)_\w+", text)}
    with TestApp() as app:
        app.ask()
        app.wait_for_outcomes()
        metrics = app.client.get("/metrics").text
    assert named
    assert all(re.search(rf"^(# HELP )?{name.removesuffix('_bucket')}", metrics, re.M) for name in named), named
    rules = yaml.safe_load(texts[0])["rules"]["custom"]
    given = {rule.get("name", {}).get("as") or rule["seriesQuery"].split("{")[0] for rule in rules}
    wanted = resources()["components/hpa/horizontalpodautoscaler.yaml"]["spec"]["metrics"]
    assert {one[one["type"].lower()]["metric"]["name"] for one in wanted} == given


def test_the_alerts_of_a_cluster_are_those_of_the_repository() -> None:
    mine = resources()["components/monitoring/prometheusrule.yaml"]["spec"]
    assert mine == yaml.safe_load((DEPLOY / "observability" / "alerts.yml").read_text("utf-8"))


# --- compose ----------------------------------------------------------------------------------------------------------

COMPOSE = DEPLOY / "compose"


@cache
def composed() -> dict[str, Any]:
    return dict(yaml.safe_load((COMPOSE / "compose.yml").read_text("utf-8")))


def gateways() -> dict[str, dict[str, Any]]:
    return {name: one for name, one in composed()["services"].items() if name.startswith("gateway")}


def test_a_composed_gateway_may_write_where_it_does_and_nowhere_else() -> None:
    settings = configured(COMPOSE / "gateway.toml")
    assert len(gateways()) == 2
    for service in gateways().values():
        assert (service["read_only"], service["user"], service["cap_drop"]) == (True, "65532:65532", ["ALL"])
        mounts = [volume.split(":") for volume in service["volumes"]]
        writable = [Path(mount[1]) for mount in mounts if mount[-1] != "ro"]
        for path in written_folders(settings).values():
            assert any(path == mount or mount in path.parents for mount in writable), path
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace > settings.server.lame_duck_s + settings.server.drain_s


def test_composed_gateways_share_no_journal() -> None:
    """Each has one of its own, or `kill -9` loses what was used since the last flush."""
    journal = Path(configured(COMPOSE / "gateway.toml").accounts.journal)
    mounted = [
        volume.split(":")[0]
        for service in gateways().values()
        for volume in service["volumes"]
        if Path(volume.split(":")[1]) in journal.parents
    ]
    assert len(set(mounted)) == len(gateways())


def test_every_name_in_the_compose_file_is_defined() -> None:
    whole = composed()
    for service in whole["services"].values():
        assert set(service.get("networks", [])) <= set(whole["networks"])
        assert set(service.get("secrets", [])) <= set(whole["secrets"])
        assert set(service.get("depends_on", {})) <= set(whole["services"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (COMPOSE / source).exists() if source.startswith(".") else source in whole["volumes"], source
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert not any(re.search("PASSWORD$|KEY$|URL$", name) for name in service.get("environment", {}))
    targets = yaml.safe_load((COMPOSE / "prometheus.yml").read_text("utf-8"))["scrape_configs"][0]["static_configs"]
    expected = {f"{name}:{SERVER.port}" for name in gateways()}
    assert set(targets[0]["targets"]) == expected
    assert set(re.findall(r"server ([\w-]+:\d+)", (COMPOSE / "nginx.conf").read_text("utf-8"))) == expected


def test_composed_secrets_are_variables_that_the_gateway_reads(tmp_path: Path) -> None:
    environ = dict(composed()["x-gateway"]["environment"])
    named = {Path(path).name for path in environ.values()}
    assert named == set(composed()["x-gateway"]["secrets"])
    assert {str(path) for path in secret_files(environ)} == set(environ.values())


# --- the unit ---------------------------------------------------------------------------------------------------------

UNIT = DEPLOY / "systemd" / "sluicegate.service"


def test_the_unit_names_settings_that_there_are_and_gives_time_to_stop() -> None:
    lines = UNIT.read_text("utf-8").splitlines()
    environ = dict(line.removeprefix("Environment=").split("=", 1) for line in lines if line.startswith("Environment="))
    found = load(environ={name: value for name, value in environ.items() if not name.endswith("_FILE")})
    assert found.accounts.path.endswith("accounts.db")
    [patience] = [int(line.split("=")[1]) for line in lines if line.startswith("TimeoutStopSec=")]
    assert patience > SERVER.lame_duck_s + SERVER.drain_s
    assert all(str(path).startswith("%S/") for path in map(Path, (found.accounts.path, found.batches.path)))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_the_unit_is_one_that_systemd_loads(tmp_path: Path) -> None:
    text = UNIT.read_text("utf-8").replace("/opt/sluicegate/bin/sluicegate", shutil.which("true") or "/bin/true")
    unit = tmp_path / UNIT.name
    unit.write_text(text, "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=120)
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert not complaints, complaints


# --- the image --------------------------------------------------------------------------------------------------------

IMAGE = DEPLOY / "image"


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (IMAGE / "Dockerfile").read_text("utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_what_the_image_is_built_of_is_there_and_let_in() -> None:
    """Sources of COPY exist and `.dockerignore` lets them in; so does every package that is installed, and no test."""
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            source = rest.split()[0]
            assert (ROOT / source).exists(), source
            assert source == "." or any(source.startswith(one) for one in let_in), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    folders = {folder.split("/")[0] for folder in project["tool"]["setuptools"]["package-dir"].values()}
    licences = {name.split("/")[0] for name in project["project"]["license-files"]}
    assert folders | {"sluicegate", project["project"]["readme"], *licences} <= let_in
    assert not let_in & {"tests", "docs", "training", "benchmarks"}


def test_the_image_runs_as_nobody_and_reads_its_own_configuration() -> None:
    found = instructions()
    assert [rest for name, rest in found if name == "USER"] == ["65532:65532"]
    assert ("STOPSIGNAL", "SIGTERM") in found
    command = json.loads(dict(found)["CMD"])
    assert json.loads(dict(found)["ENTRYPOINT"]) == ["sluicegate"]
    assert command[:3] == ["serve", "--config", "/etc/sluicegate/gateway.toml"]
    settings = configured(IMAGE / "gateway.toml")
    for path in written_folders(settings).values():
        assert Path("/var/lib/sluicegate") in path.parents


def test_every_step_of_the_image_is_one_of_the_script() -> None:
    script = (IMAGE / "steps.sh").read_text("utf-8")
    steps = [
        match for name, rest in instructions() if name == "RUN" for match in re.findall(r"steps\.sh ([\w-]+)", rest)
    ]
    assert steps == ["system", "build-tools", "install", "warm"]
    for step in (*steps, "nonsense"):
        assert (re.search(rf"^    {step}\) ", script, re.M) is not None) == (step != "nonsense")
    assert subprocess.run(["sh", "-n", str(IMAGE / "steps.sh")], capture_output=True).returncode == 0
    done = subprocess.run(["sh", str(IMAGE / "steps.sh"), "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no step 'nonsense'" in done.stderr
