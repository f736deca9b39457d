"""Configuration: one file, then variables, then flags; a misspelt name is never ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.config import load, misspelt_variables
from sluicegate.gateway.server import check_bind
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError


def write(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(text, "utf-8")
    return path


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, '[server]\nport = 1\nhost = "127.0.0.2"\nlog_level = "debug"\n')
    settings = load(path, {"SLUICEGATE_SERVER__PORT": "2", "SLUICEGATE_SERVER__HOST": "::1"}, {"server": {"port": 3}})
    assert (settings.server.port, settings.server.host, settings.server.log_level) == (3, "::1", "debug")


def test_a_variable_reaches_a_stage_whose_name_has_a_dash() -> None:
    settings = load(environ={"SLUICEGATE_STAGES__ASSEMBLE__CHAT_TEMPLATE__SHOW_SCHEMA": "false"})
    assert settings.of_stage("assemble", "chat-template") == {"show_schema": False}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[sever]\nport = 1",
            "the configuration has no 'sever'; did you mean 'server'? Valid names: server, pipeline, keys, ",
        ),
        ("[server]\nprot = 1", "[server] has no 'prot'; did you mean 'port'? Valid names: host, port"),
        (
            "[pipeline]\nmoderation = []",
            "[pipeline] has no 'moderation'; did you mean 'moderate'? Valid names: admit, screen",
        ),
        ("[stages.moderation.x]", "[stages] has no 'moderation'; did you mean 'moderate'? Valid names: admit, screen"),
        ("[server]\nport = 'x'", "[server] port must be a whole number from 0 to 65535, found 'x'"),
        ("[server]\nport = true", "[server] port must be a whole number from 0 to 65535, found True"),
        ("[pipeline]\nmoderate = 'pii'", "[pipeline] moderate must be a list of strings, found 'pii'"),
        ("[[keys]]\nsha256 = 'x'", "[keys.1] needs 'id'; valid names: id, sha256"),
        ("[[keys]]\nid = 'a'\nmodels = []", "[keys.1] models is an empty list, which may mean none or all; leave it"),
        ("[[keys]]\nid = 'a'\nroutes = []", "[keys.1] routes is an empty list"),
        ("[mcp.servers.a]\nurl = 'http://a/'\ntools = []", "[mcp.servers.a] tools is an empty list"),
        ("[server", "is not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_the_valid_names(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, text))
    assert expected in caught.value.message


def test_a_variable_of_one_part_names_a_whole_table_or_a_name_at_the_top() -> None:
    """The path of these has one part, and so their variables no two underscores."""
    settings = load(environ={"SLUICEGATE_POLICY_FILE": "strict.toml", "SLUICEGATE_SERVER": "{ port = 1234 }"})
    assert (settings.policy_file, settings.server.port) == ("strict.toml", 1234)


@pytest.mark.parametrize("names", [("SERVER", "SERVER__PORT"), ("SERVER__PORT", "SERVER")])
def test_a_variable_of_a_setting_wins_over_that_of_its_table_in_any_order(names: tuple[str, str]) -> None:
    texts = {"SERVER": "{ port = 1, workers = 2 }", "SERVER__PORT": "3"}
    server = load(environ={f"SLUICEGATE_{name}": texts[name] for name in names}).server
    assert (server.port, server.workers) == (3, 2)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"SLUICEGATE_SERVER__PORT__X": "2", "SLUICEGATE_SERVER__PORT": "1"},
            "SERVER__PORT is a value, and",
        ),
        ({"SLUICEGATE_STAGES__MODERATE__MY_RAIL": "1", "SLUICEGATE_STAGES__MODERATE__MY_RAIL__X": "2"}, "MY_RAIL is a"),
        ({"SLUICEGATE_SERVER__PORT": "9" * 5000}, "SLUICEGATE_SERVER__PORT is a number of 5000 digits"),
        ({"SLUICEGATE_SERVER__PORT": "[" * 5000}, "SLUICEGATE_SERVER__PORT has lists or tables within each other too"),
        ({"SLUICEGATE_SERVER__PORT": "80\nx = 1"}, "[server] port must be a whole number"),
        ({"SLUICEGATE_SERVER": "5"}, "[server] must be a table, found 5"),
    ],
)
def test_a_variable_that_no_setting_can_be_is_named(environ: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(environ=environ)
    assert expected in caught.value.message


def test_a_variable_with_one_underscore_is_warned_of_and_those_of_others_are_not() -> None:
    """Kubernetes makes `SLUICEGATE_PORT` and the like for a service of our name."""
    environ = dict.fromkeys(
        ("SLUICEGATE_SERVER_PORT", "SLUICEGATE_PORT", "SLUICEGATE_SERVICE_HOST", "SLUICEGATE_API_KEY_FILE"), "1"
    )
    [warning] = misspelt_variables(environ)
    assert warning.startswith("the variable SLUICEGATE_SERVER_PORT is not read")
    assert warning.endswith(": SLUICEGATE_SERVER__PORT")


@pytest.mark.parametrize(
    "text",
    [
        "[server]\nmax_body_bytes = 0",
        "[server]\nmax_values = 0",
        "[server]\nmax_messages = 0",
        "[server]\nmax_connections = 0",
        "[server]\nmax_head_bytes = 0",
        "[server]\nmax_headers = 0",
        "[server]\nbody_s = 0",
        "[server]\nstall_s = 0",
        "[batches]\nconcurrency = 0",
        f"[batches]\nkeep_days = {2**63}",
        f"[telemetry]\nrecent = {2**63}",
        f"[server]\nport = {10**400}",
        f"[server]\nmax_tools = {10**400}",
        "[review]\nttl_s = 1e300",
    ],
)
def test_a_number_that_serves_nobody_or_no_machine_holds_is_a_mistake(tmp_path: Path, text: str) -> None:
    table, name = text.split("\n")
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, text))
    assert caught.value.message.startswith(f"{table} {name.split()[0]} must be a ")


def test_a_mark_that_editors_begin_a_file_with_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[server]\nport = 1234\n", "utf-8-sig")
    assert load(tmp_path / "c.toml").server.port == 1234


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "{b = " * 20_000])
def test_a_file_of_nothing_but_depth_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"c\.toml"):
        load(tmp_path / "c.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the configuration file .*none\.toml"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
def test_a_public_address_needs_a_key(host: str) -> None:
    """Everything that is not loopback counts as public, names included."""
    with pytest.raises(ConfigurationError, match="refusing to listen"):
        check_bind(load(overrides={"server": {"host": host}}))
    check_bind(load(environ={"SLUICEGATE_API_KEY": "secret"}, overrides={"server": {"host": host}}))


def test_a_key_that_nobody_checks_does_not_make_an_address_safe() -> None:
    with pytest.raises(ConfigurationError, match="api-keys"):
        check_bind(
            load(
                environ={"SLUICEGATE_API_KEY": "secret"},
                overrides={"server": {"host": "0.0.0.0"}, "pipeline": {"admit": []}},
            )
        )


def test_the_key_of_a_variable_stands_beside_those_of_the_file(tmp_path: Path) -> None:
    """Keys of the file are served with their limits, whoever starts the gateway with a client's variable set."""
    path = tmp_path / "gateway.toml"
    path.write_text('[[keys]]\nid = "a"\nkey = "key-of-a"\n', "utf-8")
    (tmp_path / "key").write_text("key-of-a-file\n", "utf-8")
    assert [key.id for key in load(path, {"SLUICEGATE_API_KEY": "key-of-the-variable"}).keys] == ["a", "environment"]
    found = load(path, {"SLUICEGATE_API_KEY_FILE": str(tmp_path / "key")}).keys
    assert [key.id for key in found] == ["a", "environment"]
    assert [key.id for key in load(environ={"SLUICEGATE_API_KEY": "key-of-the-variable"}).keys] == ["environment"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"SLUICEGATE_API_KEY": ""}, "SLUICEGATE_API_KEY is set and empty"),
        ({"SLUICEGATE_API_KEY_FILE": ""}, "SLUICEGATE_API_KEY_FILE is set and empty"),
        ({"SLUICEGATE_API_KEY": "k", "SLUICEGATE_API_KEY_FILE": "/k"}, "are both set; the key stands in one place"),
        ({"SLUICEGATE_API_KEY": "k", "SLUICEGATE_KEYS": "5"}, "keys must be a list of tables, found 5"),
    ],
)
def test_a_key_that_is_empty_or_stands_in_two_places_is_refused(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load(environ=environ)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_key(host: str) -> None:
    check_bind(load(overrides={"server": {"host": host}}))


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({"review": {"path": "r.sqlite", "secret": "ab"}}, r"\[review\] secret"),
        ({"feedback": {"secret": "ab"}}, r"\[feedback\] secret"),
        ({"recording": {"enabled": True, "path": "r.sqlite", "secret": "ab"}}, r"\[recording\] secret"),
        ({"telemetry": {"history_secret": "ab"}}, r"\[telemetry\] history_secret"),
    ],
)
def test_a_secret_that_is_too_short_is_called_by_its_setting(tables: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{named} has 1 bytes, at least 32 are needed"):
        TestApp(settings=tables)
