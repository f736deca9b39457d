"""Addresses in settings are judged when they are read, and never shown with a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.gateway.commands.config import mistakes
from sluicegate.gateway.config import read_tree
from sluicegate.plugins.addresses import POSTGRES, WEB, check_address, check_redis_address, without_login

GOOD = [
    ("https://models.example.com/v1", WEB),
    ("http://[::1]:8000/v1?key=a@b", WEB),
    ("postgresql://sluice:pa%40ss@db1:5432,db2:5433/gate?sslmode=require", POSTGRES),
    ("postgresql:///gate?host=/run/postgresql", POSTGRES),
]
GOOD_REDIS = [
    "redis://localhost:6379/0",
    "redis://:secret@cache",
    "rediss://user:p:w@[::1]:6380/15?protocol=3",
    "unix:///run/redis.sock?db=1",
    "redis+sentinel://a:26379,b:26379/main/2",
    "redis+cluster://a:7000,b:7001",
]
TABLES = {
    '[accounts]\nurl = "{}"': (
        "http://cache:6379",
        "redis://cache:99999",
        "redis://cache:abc",
        "redis://cache/main",
        "redis+sentinel://a:1",
    ),
    '[database]\nurl = "{}"': ("mysql://db/gate", "postgresql://db:99999/gate", "postgresql:"),
    '[retrieval]\nrerank = "{}"': ("ftp://a/b", "http://a:0/b#m", "https:///b#m"),
    '[mcp.servers.files]\nurl = "{}"': ("ws://a/mcp", "http://a:99999/mcp", "http:///mcp", "http://a b/mcp"),
    '[pipeline]\nrecall = ["redis"]\n[stages.recall.redis]\nurl = "{}"': ("http://cache", "redis://cache:99999"),
    '[pipeline]\nretrieve = ["http"]\n[stages.retrieve.http]\nurl = "{}"': ("ftp://a", "http://a:99999"),
    '[pipeline]\nrecall = ["memory"]\n[stages.recall.memory.semantic]\nembedder = "{}"': ("http://a:99999/v1#m",),
    '[pipeline]\nrecall = ["memory"]\n[stages.recall.memory.semantic]\njudge = "{}"': ("https://a:-1/v1#m",),
    '[pipeline]\nmoderate = ["guard-service"]\n[stages.moderate.guard-service]\nform = "moderations"\nurl = "{}"': (
        "ftp://a/v1",
        "http://a:99999/v1",
    ),
}
CASES = [(table, url) for table, urls in TABLES.items() for url in urls]


@pytest.mark.parametrize(("url", "schemes"), GOOD)
def test_usual_addresses_pass(url: str, schemes: tuple[str, ...]) -> None:
    check_address("url", url, schemes)


@pytest.mark.parametrize("url", GOOD_REDIS)
def test_addresses_of_redis_pass(url: str) -> None:
    check_redis_address("url", url)


@pytest.mark.parametrize(("table", "url"), CASES)
def test_config_check_names_what_is_no_address(tmp_path: Path, table: str, url: str) -> None:
    (tmp_path / "gateway.toml").write_text(table.format(url))
    refused, _ = mistakes(read_tree(tmp_path / "gateway.toml", {}))
    assert len(refused) == 1, refused
    assert url.rpartition("#")[0] in refused[0] or url in refused[0]


@pytest.mark.parametrize("url", ["redis://root:hunter2@h:x", "http://root:hunter2@h:99999", "redis://a:hunter2/x@h:y"])
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(ValueError, match="port") as failed:
        check_address("url", url, ("redis", "http"))
    assert "hunter2" not in str(failed.value) + without_login(url)


LOGINS = {
    '[pipeline]\nmoderate = ["guard-service"]\n[stages.moderate.guard-service]\nform = "moderations"\nurl = "{}"': (
        "https://root:hunter2@a/v1",
        "https://root:hunter2@a:99999/v1",
    ),
    '[pipeline]\ngenerate = ["upstream"]\n[stages.generate.upstream.models.a]\nurl = "{}"': (
        "https://root:hunter2@a/v1",
        "https://root:hunter2@a:99999/v1",
        "https://root:hunter2@a/v1?key=1",
        "ftp://root:hunter2@a/v1",
    ),
}


@pytest.mark.parametrize(("table", "url"), [(table, url) for table, urls in LOGINS.items() for url in urls])
def test_config_check_shows_no_password(tmp_path: Path, table: str, url: str) -> None:
    (tmp_path / "gateway.toml").write_text(table.format(url))
    refused, _ = mistakes(read_tree(tmp_path / "gateway.toml", {}))
    assert refused
    assert "hunter2" not in "".join(refused)
