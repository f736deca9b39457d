"""What the documents print can be used as it stands."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sluicegate.engine.encoders.settings import EncoderModelSettings, EncoderSettings
from sluicegate.engine.settings import EngineSettings
from sluicegate.gateway import settings
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.prompts.templates import Templates
from sluicegate.gateway.registry import built_ins
from sluicegate.gateway.retrieval.settings import HttpRetrieverSettings, VectorSetSettings
from sluicegate.gateway.telemetry.metrics import Metrics
from sluicegate.gateway.upstream.settings import UpstreamModelSettings

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES_KEY = re.compile(r'^\s*(?:\w*key_env|key_variable) = "(\w+)"', re.MULTILINE)
BLOCKS = [
    pytest.param(language, code, id=f"{path.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for text in [path.read_text("utf-8")]
    for found in BLOCK.finditer(text)
    for language, code in [found.groups()]
    if language in ("toml", "json", "python")
]


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_an_example_is_read_as_it_is_printed(
    language: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration makes a gateway where the keys that it names are set, or a prompt template; JSON parses; Python
    compiles."""
    if language == "python":
        compile(code, "example", "exec")
    elif language == "json":
        json.loads(code)
    elif "system" in tomllib.loads(code):
        Templates("", {"example@1": tomllib.loads(code)})
    else:
        file = tmp_path / "gateway.toml"
        file.write_text(code.replace('"…"', f'"{"0" * 64}"'), "utf-8")  # a digest of your own
        keys = dict.fromkeys(NAMES_KEY.findall(code), "a-key")
        for name, key in keys.items():
            monkeypatch.setenv(name, key)
        compose(load(file, {}), keys)


def rows(document: str, head: str) -> dict[str, str]:
    """Name -> default, of the table under the first cell `head` or the first one below the heading `head`."""
    text = (ROOT / "docs" / document).read_text("utf-8")
    start = re.search(rf"^(?:#+ .*{re.escape(head)}|\| {re.escape(head)} \|).*$", text, re.MULTILINE)
    assert start, f"{document} has no {head}"
    table = re.search(r"(?:^\|.*\|\n)+", text[start.start() :], re.MULTILINE)
    assert table
    found: dict[str, str] = {}
    for row in table[0].splitlines()[2:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        names = re.findall(r"`([\w-]+)`", cells[0])
        defaults = cells[1].split(", ") if len(names) > 1 and cells[1].count(", ") == len(names) - 1 else [cells[1]]
        found |= dict(zip(names, defaults * len(names) if len(defaults) == 1 else defaults, strict=True))
    return found


def parse_default(text: str) -> Any:
    """Read a default as a document writes it; None where it is words."""
    plain = text.strip("`")
    if plain in ("true", "false"):
        return plain == "true"
    number = re.fullmatch(r"(\d[\d,]*(?:\.\d+)?)( [KMG]iB)?(?: \(off\))?", plain)
    if number:
        units = {None: 1, " KiB": 2**10, " MiB": 2**20, " GiB": 2**30}
        return float(number[1].replace(",", "")) * units[number[2]]
    return plain if text.startswith("`") and text.endswith("`") and text.count("`") == 2 else None


@pytest.mark.parametrize(
    ("document", "head", "kind"),
    [
        ("configuration.md", "[server]", settings.ServerSettings),
        ("configuration.md", "[[keys]]", settings.KeySettings),
        ("configuration.md", "limit", settings.Limits),
        ("configuration.md", "[accounts]", settings.AccountSettings),
        ("configuration.md", "[database]", settings.DatabaseSettings),
        ("configuration.md", "[ray]", settings.RaySettings),
        ("configuration.md", "`[ray.gateway]`", settings.RayGatewaySettings),
        ("configuration.md", "`[ray.engine]`", settings.RayEngineSettings),
        ("configuration.md", "[batches]", settings.BatchSettings),
        ("configuration.md", "[prompts]", settings.PromptSettings),
        ("configuration.md", "`[routing.models.NAME]`", settings.RouteSettings),
        ("configuration.md", "`[routing.models.NAME.rollout]`", settings.RolloutSettings),
        ("configuration.md", "`[routing.models.NAME.rollout.checks]`", settings.OnlineChecks),
        ("configuration.md", "[feedback]", settings.FeedbackSettings),
        ("configuration.md", "[recording]", settings.RecordingSettings),
        ("configuration.md", "`[routing.queues.MODEL]`", settings.QueueSettings),
        ("configuration.md", "`[review]`", settings.ReviewSettings),
        ("configuration.md", "[telemetry]", settings.TelemetrySettings),
        ("configuration.md", "[pipeline]", settings.PipelineSettings),
        ("configuration.md", "generate.upstream", UpstreamModelSettings),
        ("engine.md", "Settings", EngineSettings),
        ("retrieval.md", "`[retrieval]`", settings.RetrievalSettings),
        ("retrieval.md", "`[stages.retrieve.http]`", HttpRetrieverSettings),
        ("retrieval.md", "`[stages.retrieve.vector-set]`", VectorSetSettings),
        ("retrieval.md", "`[stages.generate.encoders]`", EncoderSettings),
        ("retrieval.md", "`[stages.generate.encoders.models.NAME]`", EncoderModelSettings),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_setting_is_documented_with_its_default(document: str, head: str, kind: type[Any]) -> None:
    """Each name of the table is a setting and each setting is in it; a number, a word, true or false as its default is
    the one in force."""
    documented = rows(document, head)
    assert set(documented) == {field.name for field in dataclasses.fields(kind)}
    for field in dataclasses.fields(kind):
        default, said = field.default, parse_default(documented[field.name])
        if said is not None and isinstance(default, bool | int | float | str) and default != "":
            assert said == default, f"{document}: {field.name} is {default!r}, not {documented[field.name]}"


def test_every_built_in_stage_is_in_the_table_of_slots() -> None:
    registry = built_ins(load(None, {}), Metrics())
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    for slot in dataclasses.fields(settings.PipelineSettings):
        row = re.search(rf"^\| `{slot.name}` \| (.+) \| (.+) \|$", text, re.MULTILINE)
        assert row, slot.name
        assert set(re.findall(r"`([\w-]+)`", row[1])) == set(slot.default)  # type: ignore[arg-type]
        assert set(re.findall(r"`([\w-]+)`", row[2])) == set(registry.names(slot.name))
