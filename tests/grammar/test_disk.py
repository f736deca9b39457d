"""What is kept of a vocabulary on disk: the same after a restart, bounded, and never believed blindly."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.grammar.store import snapshot as prepared
from sluicegate.grammar.store.folder import Folder
from sluicegate.plugins import Constraint
from sluicegate.plugins.cache_folder import ENV, default_folder
from sluicegate.plugins.errors import ConfigurationError
from tests.grammar.grammar_checks import allowed, byte_vocabulary
from tests.grammar.test_stage import (
    build,
    model,  # noqa: F401  # a fixture
)

SCHEMA = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date"},
        "mail": {"type": "string", "pattern": "^[a-z0-9]+@[a-z]+$"},
    },
    "required": ["when", "mail"],
}
TEXT = b'{"when": "2024-02-29", "mail": "a@b"}'


def fresh() -> Vocabulary:
    """Make a vocabulary with more tokens inside a string than are listed one by one, so that some classes are
    bitmasks."""
    words = [*byte_vocabulary().words[:-2], *(f"w{number}".encode() for number in range(2_000)), b""]
    return Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])


def masks(vocabulary: Vocabulary) -> list[set[int]]:
    matcher = compile_json_schema(SCHEMA, vocabulary).matcher()
    found = []
    for byte in TEXT:
        found.append(allowed(matcher, vocabulary))
        matcher.accept(byte)
    assert matcher.can_stop
    return found


@pytest.fixture
def kept(tmp_path: Path) -> Folder:
    """Keep what one run left behind in a folder, and return it."""
    first, folder = fresh(), Folder(tmp_path / "caches")
    masks(first)
    assert prepared.keep(first, folder)
    return folder


def the_file(folder: Folder) -> Path:
    [file] = folder.path.iterdir()
    return file


def test_a_restored_vocabulary_gives_the_same_masks_and_classifies_nothing_again(
    kept: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = masks(fresh())
    again = fresh()
    assert prepared.restore(again, kept)
    anew = fresh().warm()
    for part in ("byte", "depth", "skip", "first", "exact", "ids", "roots"):
        assert np.array_equal(getattr(again.trie, part), getattr(anew.trie, part))
    assert again.remainder_words == anew.remainder_words
    assert len(again.classes) > 10
    monkeypatch.setattr("sluicegate.grammar.classification.automata._walk", lambda *_: pytest.fail("classified again"))
    assert masks(again) == expected


def test_another_vocabulary_or_other_code_finds_nothing(kept: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    words = fresh().words
    other = Vocabulary.from_bytes([*words[:-1], b"new", b""], eos_token_ids=[len(words)])
    assert not prepared.restore(other, kept)
    monkeypatch.setattr("numpy.__version__", "0.1")
    assert not prepared.restore(fresh(), kept)


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 10**9), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_file_is_made_again_with_a_line_in_the_log(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int, cut: bool
) -> None:
    """Any bit turned round, or the end cut off."""
    folder = Folder(tmp_path_factory.mktemp("c"))
    assert prepared.keep(fresh().warm(), folder)
    file = the_file(folder)
    data = bytearray(file.read_bytes())
    at %= len(data)
    if cut:
        del data[at:]
    else:
        data[at] ^= 1 << bit
    file.write_bytes(data)
    assert not prepared.restore(fresh(), folder)
    assert not file.exists()


def test_the_line_in_the_log_names_the_file(kept: Folder, caplog: pytest.LogCaptureFixture) -> None:
    the_file(kept).write_bytes(b"nonsense")
    with caplog.at_level(logging.WARNING):
        assert not prepared.restore(fresh(), kept)
    assert "is damaged; what it held is made anew" in caplog.text


def _huge(array: Any) -> Any:
    array = array.copy()
    array[-1] = 1 << 30
    return array


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("order", _huge),
        ("order", lambda a: a[::-1].copy()),
        ("order", lambda a: np.concatenate([a[:1], a[:-1]])),
        ("order", lambda a: a[:-1]),
        ("order", lambda a: a.astype(np.int64)),
        ("slice0.row", lambda a: a[:-1]),
        ("slice1.row", lambda a: a.astype(np.int64)),
        ("remainders", lambda a: a[:-1]),
        ("remainders.sizes", _huge),
        ("classes.ids", _huge),
        ("classes.ids", lambda a: a[:-1]),
        ("classes.numbers", _huge),
        ("classes.tokens.sizes", lambda a: np.zeros_like(a)),
        ("classes.rows", lambda a: a[:-1]),
        ("classes.digest", lambda a: a[:-1]),
        ("classes.quoted", lambda a: a.astype(np.int8)),
    ],
)
def test_arrays_that_do_not_fit_are_refused_though_their_digest_is_right(kept: Folder, name: str, change: Any) -> None:
    """The compiled loops that read them check nothing."""
    vocabulary = fresh()
    arrays = kept.read(prepared.name_of(vocabulary))
    assert arrays is not None
    arrays[name] = change(arrays[name])
    assert kept.write(prepared.name_of(vocabulary), arrays)
    assert not prepared.restore(vocabulary, kept)
    assert not list(kept.path.iterdir())
    assert len(vocabulary.classes) == 0


def test_pickles_are_never_read(tmp_path: Path) -> None:
    import io
    from hashlib import blake2b

    body = io.BytesIO()
    np.savez(body, trap=np.array([object()], dtype=object))
    data = body.getvalue()
    (tmp_path / "x.arrays").write_bytes(b"sluicegate arrays 1\n" + blake2b(data, digest_size=32).digest() + data)
    assert Folder(tmp_path).read("x") is None


def test_the_folder_is_bounded_and_loses_what_was_used_longest_ago(tmp_path: Path) -> None:
    folder = Folder(tmp_path, most_bytes=10_000)
    for number, name in enumerate(("a", "b", "c")):
        assert folder.write(name, {"x": np.zeros(600, np.int32)})
        os.utime(tmp_path / f"{name}.arrays", (number, number))
    (tmp_path / "left-by-a-crash.new").write_bytes(b"x" * 2_000)
    os.utime(tmp_path / "left-by-a-crash.new", (0, 0))
    assert folder.read("a") is not None
    assert folder.write("d", {"x": np.zeros(600, np.int32)})
    assert {file.name for file in tmp_path.iterdir()} == {"a.arrays", "c.arrays", "d.arrays"}
    assert not folder.write("e", {"x": np.zeros(10_000, np.int32)})


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_folder_that_others_can_write_to_is_not_used(kept: Folder, caplog: pytest.LogCaptureFixture) -> None:
    kept.path.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert not prepared.restore(fresh(), kept)
        assert not prepared.keep(fresh().warm(), kept)
    assert "others own it or can write to it" in caplog.text


def test_where_nothing_can_be_kept_the_start_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    folder = Folder(tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING):
        assert not prepared.restore(fresh(), folder)
        assert not prepared.keep(fresh().warm(), folder)
    assert "made anew at the next start" in caplog.text


def test_where_the_folder_is() -> None:
    assert default_folder({ENV: "/a/b"}) == Path("/a/b")
    assert default_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/sluicegate")
    assert default_folder({"XDG_CACHE_HOME": "relative"}) == Path("~/.cache/sluicegate").expanduser()


async def test_a_second_start_begins_with_what_the_first_one_learned(
    tmp_path: Path,
    model: Any,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "sluicegate.grammar")
    for start in range(2):
        stage = build({"cache_dir": str(tmp_path / "caches")})
        await stage.warm(model)
        grammar = await stage.compile(Constraint("json_schema", {"type": "string", "format": "date"}), model)
        assert allowed(grammar.matcher(), grammar.vocabulary)
        await stage.close()
        assert "loading compiled loops" in caplog.text
        assert ("states from disk" if start else "made anew") in caplog.text
        caplog.clear()
    stage = build({"cache_dir": ""})
    await stage.warm(model)
    await stage.close()
    assert "made anew" in caplog.text
    with pytest.raises(ConfigurationError, match="cache_bytes"):
        build({"cache_bytes": 0})
