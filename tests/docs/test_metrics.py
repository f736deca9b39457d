"""Every metric that a gateway shows has a word in the documents, and its kind follows from its name."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from sluicegate.gateway.testing import TestApp

DOCS = Path(__file__).resolve().parents[2] / "docs"
CODE = re.compile(r"`([^`]+)`")
FAMILY = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


def documented() -> set[str]:
    """Return the names and patterns of all pages. `_x` and `…_x` stand for the name before them in their line, with
    other words at its end."""
    found: set[str] = set()
    for page in DOCS.rglob("*.md"):
        for line in page.read_text("utf-8").splitlines():
            whole = ""
            for name in (re.sub(r"\{.*", "", word) for word in CODE.findall(line)):
                if name.startswith(("_", "…_", "...")) and whole:
                    words = whole.split("_")
                    found |= {"_".join(words[:kept]) + name.lstrip("….") for kept in range(1, len(words))}
                elif re.fullmatch(r"[a-z][a-z0-9_:]*\*?", name):
                    whole = name
                    found.add(name)
    return found


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the kind of each metric of a gateway that has one of everything, by its name."""
    folder = tmp_path_factory.mktemp("metrics")
    tables = {
        "batches": {"path": str(folder / "files")},
        "review": {"path": str(folder / "review.sqlite")},
        "feedback": {"path": str(folder / "feedback.sqlite")},
        "recording": {"enabled": True, "path": str(folder / "recorded.sqlite"), "secret": "ab" * 32},
        "audit": {"path": str(folder / "audit.jsonl")},
        "telemetry": {"history": str(folder / "history")},
        "routing": {"state": str(folder / "routes.json")},
    }
    pipeline = {"admit": ["api-keys", "limits"], "recall": ["memory", "sqlite"], "moderate": ["secrets"]}
    stages = {"recall": {"sqlite": {"path": str(folder / "answers.sqlite")}}}
    keys = [{"id": "one", "key": "a-key-of-one", "scopes": ["admin"]}]
    with TestApp(
        pipeline={**pipeline, "record": ["ledger", "metrics"]},
        stages=stages,
        keys=keys,
        accounts={"path": str(folder / "accounts.sqlite")},
        settings=tables,
    ) as app:
        app.client.headers["authorization"] = "Bearer a-key-of-one"
        app.ask()
        text = app.client.get("/metrics").text
    return {name.removesuffix("_created"): kind for name, kind in FAMILY.findall(text) if not name.endswith("_created")}


def test_every_metric_is_documented(metrics: dict[str, str]) -> None:
    known = documented()
    missing = {name for name in metrics if not any(fnmatch(name, one) for one in known)}
    assert {name for name in missing if f"{name}_total" not in known} == set()


def test_what_only_grows_is_named_and_shown_as_a_counter(metrics: dict[str, str]) -> None:
    """A rate of a gauge means nothing where the gateway has started again."""
    words = ("hits", "misses", "stored", "refused", "evicted", "expired", "purged", "errors", "failures")
    grow = {name for name in metrics if name.removesuffix("_total").endswith(tuple(f"_{word}" for word in words))}
    assert {name: metrics[name] for name in grow if metrics[name] != "counter"} == {}
