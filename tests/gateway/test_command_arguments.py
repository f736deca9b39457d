"""What a command cannot use is refused in one sentence, before anything is done."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from sluicegate.gateway.accounts.idle_keys import idle_keys
from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.config import load

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        ("bench --requests 0", "--requests"),
        ("bench --max-tokens -1", "--max-tokens"),
        ("bench --seconds 0", "--seconds"),
        ("bench --capacity nan", "--capacity"),
        ("bench --slo-first-s -1", "--slo-first-s"),
        ("bench --batch-lines -5", "--batch-lines"),
        ("eval cases.jsonl --repeat 0", "--repeat"),
        ("eval cases.jsonl --timeout 0", "--timeout"),
        ("replay --parallel 0", "--parallel"),
        ("replay --limit 0", "--limit"),
        ("redteam texts.jsonl --parallel 0", "--parallel"),
        ("redteam texts.jsonl --limit 1.5", "--limit"),
    ],
)
def test_a_number_that_asks_for_nothing_is_refused_by_its_name(words: str, argument: str, capsys: Capture) -> None:
    """Without a gateway to ask: a run of 0 requests ended with an error of division."""
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert f"argument {argument}: must be a " in capsys.readouterr().err


@pytest.mark.parametrize("words", ["eval {}", "redteam {}", "lint {}", "mask true @{}", "bench --model m --schema {}"])
def test_a_file_that_is_not_there_is_named_once(words: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(words.format(tmp_path / "nothing.json").split()) == 2
    said = capsys.readouterr().err
    assert said.count("nothing.json") == 1, said
    assert "No such file or directory" in said
    assert "Errno" not in said


def test_a_backup_of_nothing_is_an_error_and_leaves_no_folder(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever forgets --config has no backup, and learns it now."""
    monkeypatch.setenv("SLUICEGATE_REVIEW__PATH", str(tmp_path / "none.sqlite3"))
    assert main(["backup", str(tmp_path / "copy")]) == 2
    assert "there to be backed up; see --config" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_ACCOUNTS__PATH", str(tmp_path / "accounts.db"))


@pytest.mark.usefixtures("store")
def test_a_key_that_would_be_refused_from_the_start_is_not_made(capsys: Capture) -> None:
    assert main(["keys", "create", "a", "--expires", "2020-01-01"]) == 2
    assert "`expires` is past" in capsys.readouterr().err
    assert main(["keys", "create", "a", "--expires", "2200-01-01"]) == 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("option", ["models", "tools", "mcp", "routes", "rails", "scopes", "team", "tenant", "expires"])
@pytest.mark.parametrize("text", ["", " ", ","])
def test_a_key_is_not_open_to_more_since_a_variable_of_the_shell_is_empty(
    option: str, text: str, capsys: Capture
) -> None:
    """`--models "$ALLOWED"` made a key for all models, `--expires "$UNTIL"` one for ever."""
    if text == "," and option in ("team", "tenant", "expires"):
        return
    with contextlib.suppress(SystemExit):
        main(["keys", "create", "a", f"--{option}", text])
    said = capsys.readouterr()
    assert f"--{option}: it is empty; leave the option out" in said.err
    assert said.out == ""


@pytest.mark.usefixtures("store")
def test_names_in_a_list_may_have_blanks_around_them() -> None:
    assert main(["keys", "create", "a", "--models", "one, two"]) == 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("grace", ["-1", "nan", "1e12"])
def test_the_old_secret_of_a_key_is_good_for_a_time_that_is_one(grace: str, capsys: Capture) -> None:
    main(["keys", "create", "a"])
    assert main(["keys", "rotate", "a", f"--grace-s={grace}"]) == 2
    assert "`grace_s` must be from 0 to" in capsys.readouterr().err


@pytest.mark.usefixtures("store")
def test_words_of_a_new_key_that_nothing_knows_are_noted(capsys: Capture) -> None:
    assert main(["keys", "create", "a", "--scopes", "amdin", "--rails", "pij"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("sg-")
    assert "note: no part of the gateway asks for the scope 'amdin'" in said.err
    assert "note: it is not served without the rail 'pij'" in said.err


@pytest.mark.usefixtures("store")
def test_the_limits_of_a_team_are_shown_when_they_are_set(capsys: Capture) -> None:
    main(["keys", "team", "finance", "--budget-month", "200"])
    main(["keys", "team", "finance"])
    assert capsys.readouterr().out == "team 'finance': budget_month 200\nteam 'finance': no limits\n"


def test_the_scope_of_pseudonyms_is_one_where_they_run() -> None:
    tree = {"keys": [{"id": "a", "key": "k", "scopes": ["pii", "real"]}]}
    assert len(idle_keys(load(None, {}, tree))) == 2
    screen = {"pipeline": {"screen": ["pseudonyms"]}}
    [left] = idle_keys(load(None, {}, {**tree, **screen}))
    assert "'real'; there are admin and review and pii" in left
    named = {**screen, "stages": {"screen": {"pseudonyms": {"scope": "real"}}}}
    [left] = idle_keys(load(None, {}, {**tree, **named}))
    assert "the scope 'pii'" in left
