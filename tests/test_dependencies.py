"""What we depend on: used, bounded, under a licence we know. Known holes are `make audit`, which needs the network."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RUNTIME = [
    *PROJECT["dependencies"],
    *(d for n, e in PROJECT["optional-dependencies"].items() if n != "test" for d in e),
]
IMPORTED_AS = {
    "google-re2": "re2",
    "googleapis-common-protos": "google.rpc",
    "grpcio": "grpc",
    "grpcio-health-checking": "grpc_health.v1",
    "grpcio-reflection": "grpc_reflection.v1alpha",
    "protobuf": "google.protobuf",
    "jsonschema-rs": "jsonschema_rs",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
    "opentelemetry-proto": "opentelemetry.proto",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "httptools": "uvicorn.protocols.http.httptools_impl",
}
USED_BY_OTHERS = {
    "accelerate": "transformers needs it to read GGUF files",
    "mkdocs": "the site is built with it",
    "mkdocs-material": "the site is built with it",
    "mkdocstrings-python": "the site is built with it",
    "gguf": "transformers reads GGUF files with it",
    "python-multipart": "FastAPI reads uploads with it",
    "safetensors": "transformers reads weights with it",
    "tiktoken": "vocabularies of its format are compared with it",
    "websockets": "uvicorn speaks WebSocket with it",
}
USED_AS_THEY_COME = {
    "psycopg": "LGPL; an extra, neither changed nor shipped by us",
    "psycopg-pool": "LGPL; an extra, neither changed nor shipped by us",
}
LICENCES = re.compile(r"apache|mit\b|bsd|isc\b|mpl|mozilla|psf|python software|unlicense|zlib", re.I)


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found.group()


@pytest.mark.parametrize("requirement", RUNTIME, ids=name_of)
def test_a_dependency_has_a_lower_bound_and_is_used(requirement: str) -> None:
    """Nothing is carried along that nobody needs."""
    assert re.search(r">=\d", requirement), requirement
    name = name_of(requirement)
    module = IMPORTED_AS.get(name, name.replace("-", "_").lower())
    used = re.compile(rf"^\s*(import|from) {re.escape(module)}\b|import_module\(\"{re.escape(module)}", re.M)
    packages = ("gateway", "safety", "grammar", "engine", "cache", "plugins")
    assert name in USED_BY_OTHERS or any(
        used.search(p.read_text("utf-8")) for one in packages for p in (ROOT / one).rglob("*.py")
    ), name


@pytest.mark.parametrize("requirement", RUNTIME, ids=name_of)
def test_a_dependency_has_a_licence_that_we_know(requirement: str) -> None:
    try:
        meta: Any = distribution(name_of(requirement)).metadata
    except PackageNotFoundError:
        pytest.skip(f"{name_of(requirement)} is not installed")
    said = [str(meta.get("License-Expression") or ""), str(meta.get("License") or "")[:200]]
    said += [line for line in meta.get_all("Classifier") or [] if line.startswith("License")]
    known = LICENCES.search(" ".join(said)) or (name_of(requirement) in USED_AS_THEY_COME and "LGPL" in " ".join(said))
    assert known, f"{requirement}: {said}"
