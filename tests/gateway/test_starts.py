"""What keeps a gateway from starting: one sentence on what was found and where, exit status 2, and no traceback."""

from __future__ import annotations

import gc
import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import sluicegate.engine
from sluicegate.gateway.commands.cli import main
from sluicegate.grammar.constrainer import GrammarConstrainer

BUNDLED = Path(sluicegate.engine.__file__).parent / "bundled"
CONFIG = json.loads((BUNDLED / "config.json").read_text("utf-8"))


def model(folder: Path, **files: str | None) -> str:
    """Copy the bundled model; some files say something else, or are gone."""
    place = folder / "model"
    shutil.copytree(BUNDLED, place, ignore=shutil.ignore_patterns("__*", "*.safetensors"))
    (place / "model.safetensors").write_bytes(b"")
    for name, text in files.items():
        file = place / name.replace("__", ".")
        file.unlink() if text is None else file.write_text(text, "utf-8")
    return str(place)


MODELS: dict[str, tuple[Callable[[Path], str], str]] = {
    "a folder that is not there": (lambda path: "./nope", "there is no './nope' here"),
    "a path that is not there": (lambda path: "/no/such/folder", "there is no '/no/such/folder' here"),
    "an empty folder": (lambda path: str(path), "has no config.json"),
    "an empty name": (lambda path: "", "the folder '' has no config.json"),
    "a file": (lambda path: model(path) + "/config.json", "is a file and no model"),
    "config.json cut short": (lambda path: model(path, config__json="{"), "is not JSON"),
    "config.json that is a list": (lambda path: model(path, config__json="[]"), "names no model_type"),
    "config.json of nothing": (lambda path: model(path, config__json="{}"), "names no model_type"),
    "no weights": (lambda path: model(path, model__safetensors=None), "holds no weights"),
    "no tokenizer": (
        lambda path: model(path, tokenizer__json=None, tokenizer_config__json=None),
        "holds no tokenizer",
    ),
}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line that `serve` prints."""
    assert main(["serve", "--port", "0", *arguments]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    [line] = said.err.splitlines()
    assert line.startswith("sluicegate: ")
    assert said.out == ""
    return line


@pytest.mark.parametrize("situation", MODELS)
def test_a_model_that_cannot_be_one_is_refused_at_once(
    situation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is bound or loaded."""
    make, expected = MODELS[situation]
    assert expected in refused(capsys, "--model", make(tmp_path))


def test_what_serve_refuses_warm_refuses_in_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it has compiled for a minute."""
    assert main(["warm", "--model", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "has no config.json; name a folder" in said.err
    assert said.out == ""


UPSTREAM = '[pipeline]\ngenerate = ["upstream"]\n[stages.generate.upstream.models.a]\n'
CONFIGURATIONS = {
    "[server": "is not valid TOML",
    "[servr]\nport = 1": "did you mean 'server'",
    "[server]\nprot = 1": "did you mean 'port'",
    "[server]\ndrain_s = -1": "from 0",
    '[server]\nlog_level = "loud"': "must be one of debug, info",
    '[server]\ntls_cert = "gateway.toml"': "belong together",
    '[server]\ntls_cert = "a"\ntls_key = "b"': "tls_cert must be a file that exists and can be read, found 'a': there",
    '[pipeline]\nmoderate = ["pi"]': "no stage 'pi' is installed",
    "[stages.moderate.pi]": "which nobody registered",
    "[pipeline]\ngenerate = []": "names no stage",
    '[[keys]]\nid = "a"\nsha256 = "xyz"': "64 hexadecimal digits",
    'policy_file = "nope.toml"': "policy_file must be a file that exists and can be read, found 'nope.toml'",
    '[prompts]\nsummarise = "no.such:thing"': "cannot be imported",
    '[review]\nsecret = "zz"': "must be hexadecimal",
    '[routing]\nstate = "."': "state must be a file that can be written, found '.': it is a folder",
    '[routing]\nstate = "no/such/file"': "there is no folder 'no/such'",
    '[accounts]\npath = "."': "[accounts] path must be a file that can be written, found '.': it is a folder",
    '[accounts]\npath = "a\\u0000b"': "it holds a zero byte",
    '[batches]\npath = "/dev/null"': "[batches] path must be a folder that can be written, found '/dev/null'",
    '[telemetry]\nevaluations = "/dev/null"': "evaluations must be a folder, or none yet, found '/dev/null'",
    '[stages.recall.sqlite]\npath = "/dev/null"\n[pipeline]\nrecall = ["sqlite"]': "it is no regular file",
    '[stages.constrain.grammar]\ncache_dir = "/dev/null"': "it is no folder",
    f'[audit]\npath = "/{"a" * 300}"': "file name too long",
    "[stages.constrain.grammar.options]\nwhitespac = 1": "unknown grammar option",
    '[stages.recall.redis]\nurl = "x"\n[pipeline]\nrecall = ["redis"]': "[stages.recall.redis] url must begin with redis://",
    '[[keys]]\nid = "a"\nkey = "k"\n[[keys]]\nid = "b"\nkey = "k"': "'a' and 'b' are the same key",
    '[[keys]]\nid = "a"\nkey = "k"\nroutes = ["v1/chat/*"]': "'v1/chat/*' is no path",
    '[[keys]]\nid = "a"\nkey = "  "': "has a blank at an end of `key`",
    '[[keys]]\nid = "a"\nkey = "sécret"': "has a blank at an end of `key`, or characters beside ASCII",
    '[[keys]]\nid = "a"\nkey = "k"\nroutes = ["/v1/*/x"]': "'/v1/*/x' is no path",
    '[keys]\nid = "a"\nkey = "the-secret"': "keys must be a list of tables, found a table of id, key",
    '[pipeline]\nmoderate = ["secrets", "pii", "secrets"]': "moderate names 'secrets' twice",
    "[server]\nworkers = 2": "each process would load the models",
    '[server]\nallowed_hosts = ["http://x"]': "'http://x'",
    f"[server]\nport = {'9' * 6000}": "is not valid TOML",
    UPSTREAM + 'url = "http://x/v1/chat/completions"': "url must end before /chat/completions",
    UPSTREAM + 'url = "http://x:99999/v1"': "models.a] url is no address (Port out of range 0-65535)",
}


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_a_mistake_in_the_configuration_is_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And `config check` refuses what `serve` refuses, with the same words."""
    monkeypatch.chdir(tmp_path)
    Path("gateway.toml").write_text(text, "utf-8")
    line = refused(capsys, "--config", "gateway.toml")
    assert CONFIGURATIONS[text] in line
    assert main(["config", "check", "gateway.toml"]) == 2
    said = capsys.readouterr()
    assert line.removeprefix("sluicegate: ") in (said.out + said.err)


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused(capsys, "--port", str(port))


def test_a_fault_of_ours_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not what the gateway did last: it was shutting down by then."""

    async def overflow(*_: object) -> None:
        raise OverflowError("an integer does not fit")

    monkeypatch.setattr(GrammarConstrainer, "warm", overflow)
    assert main(["serve", "--port", "0"]) != 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert "while warming" in said
    assert "OverflowError: an integer does not fit" in said


def test_a_start_that_failed_leaves_the_collector_running() -> None:
    assert main(["serve", "--model", "./nope", "--port", "0"]) == 2
    assert gc.isenabled()


def test_debug_shows_the_traceback_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "./nope", "--port", "0", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


MANY = """
[server]
prot = 1
host = 3
[telemetri]
[[keys]]
id = "a"
sha256 = "xyz"
[pipeline]
moderate = ["pii"]
[stages.moderate.pii]
typs = ["emial"]
action = "redcat"
[stages.moderate.blocklist]
phrase = ["x"]
[stages.generate.engine]
models = ["./nope"]
max_batch_sise = 3
[policies.x]
foo = 1
"""


def test_every_mistake_is_named_not_the_first_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of every table, each by itself, those of a stage that does not run among them."""
    file = tmp_path / "gateway.toml"
    file.write_text(MANY, "utf-8")
    assert main(["config", "check", str(file), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    expected = (
        "did you mean 'port'",
        "host must be a string",
        "did you mean 'telemetry'",
        "sha256",
        "did you mean 'types'",
        "no kind of personal data 'emial'",
        "action must be one of",
        "did you mean 'phrases'",
        "'./nope'",
        "did you mean 'max_batch_size'",
        "[policies.x] has no 'foo'",
    )
    for words in expected:
        assert [text for text in told["mistakes"] if words in text], words
    assert len(told["mistakes"]) == len(expected)
    assert ["blocklist" in text for text in told["idle"]] == [True]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ('scopes = ["amin"]', "no part of the gateway asks for the scope 'amin'"),
        ('rails = ["secrts"]', "it is not served without the rail 'secrts', and [pipeline] runs secrets"),
        ('team = "reserch"', "its team 'reserch' has no limits"),
        ("expires = 2020-01-31", "it has expired (2020-01-31)"),
    ],
)
def test_a_word_of_a_key_without_effect_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, told: str
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'[[keys]]\nid = "a"\nkey = "k"\n{key}', "utf-8")
    assert main(["config", "check", str(file)]) == 1
    assert f"key 'a': {told}" in capsys.readouterr().out


def test_a_date_needs_no_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gateway.toml"
    for date in ("2999-01-31", "2999-01-31T10:00:00Z", '"2999-01-31"'):
        file.write_text(f'[[keys]]\nid = "a"\nkey = "k"\nexpires = {date}', "utf-8")
        assert main(["config", "check", str(file)]) == 0, capsys.readouterr().out


def test_a_stage_that_does_not_run_is_told_apart_from_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[stages.moderate.blocklist]\nphrases = ["x"]', "utf-8")
    assert main(["config", "check", str(file)]) == 1
    assert "is configured and does not run" in capsys.readouterr().out
    file.write_text("", "utf-8")
    assert main(["config", "check", str(file)]) == 0
