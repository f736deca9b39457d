"""The table of fields holds: every field of every model stands in it, and every row that says `served` is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.api.body.depth import MAX_DEPTH
from sluicegate.gateway.api.body.nearest import Nearest
from sluicegate.gateway.api.body.parsing import read_json
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Wire, paths_of
from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.fields_page import page
from sluicegate.gateway.fields import FORWARDED, SAMPLING, TABLE, asks, rows_of
from sluicegate.gateway.upstream.dialects import SERVER_DIALECTS
from sluicegate.gateway.upstream.request_body import body_of
from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.plugins import Message, RepetitionDetection, Request, RequestError, Sampling

ROOT = Path(__file__).parents[2]
NAMES = [dialect.name for dialect in DIALECTS]
FIELDS = {dialect.name: dialect.fields for dialect in DIALECTS}
BODIES: Mapping[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "completions": {"model": "m", "prompt": "x"},
    "responses": {"model": "m", "input": "x"},
    "messages": {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9},
}
READERS = [dialect for dialect in DIALECTS if isinstance(dialect, TextDialect)]
PARSERS: dict[str, Callable[[Any], Any]] = {dialect.name: dialect.read for dialect in READERS}
WIRE: Mapping[str, tuple[Any, Any]] = {
    "max_tokens": (7, 7),
    "max_completion_tokens": (7, 7),
    "max_output_tokens": (7, 7),
    "min_tokens": (2, 2),
    "temperature": (0.5, 0.5),
    "top_p": (0.5, 0.5),
    "top_k": (3, 3),
    "min_p": (0.5, 0.5),
    "typical_p": (0.5, 0.5),
    "repetition_penalty": (1.5, 1.5),
    "frequency_penalty": (0.5, 0.5),
    "presence_penalty": (0.5, 0.5),
    "seed": (3, 3),
    "random_seed": (3, 3),
    "stop": ("x", ("x",)),
    "stop_sequences": (["x"], ("x",)),
    "stop_token_ids": ([3], (3,)),
    "include_stop_str_in_output": (True, True),
    "no_stop_trim": (True, True),
    "repetition_detection": ({"max_pattern_size": 4, "min_count": 3}, RepetitionDetection(4, 3)),
    "ignore_eos": (True, True),
    "bad_words": (["x"], ("x",)),
    "logit_bias": ({"3": 1.0}, {3: 1.0}),
    "logprobs": ({"chat": True, "completions": 0}, 0),
    "top_logprobs": (2, 2),
    "best_of": (2, 2),
    "use_beam_search": (True, True),
    "length_penalty": (0.5, 0.5),
    "early_stopping": ("never", "never"),
    "num_beam_groups": (2, 2),
    "diversity_penalty": (0.5, 0.5),
    "sluicegate.on_length": ("close", True),
}
"""What is sent, and what becomes of it."""
NEEDS: Mapping[str, dict[str, Any]] = {
    name: {"use_beam_search": True}
    for name in ("length_penalty", "early_stopping", "num_beam_groups", "diversity_penalty")
}


@pytest.mark.parametrize("dialect", NAMES)
def test_every_field_of_a_model_stands_in_the_table(dialect: str) -> None:
    """Those inside other fields too; one that is read and has no effect is called reported, and is. Our own object is
    one model for all dialects, so that a dialect refuses some of its fields."""
    rows = rows_of(dialect)
    for path, _, _ in paths_of(FIELDS[dialect].kind):
        assert path in rows, f"{path} of {dialect} is in no row"
        assert rows[path].support.of(dialect) != "refused" or path.startswith("sluicegate."), path


@pytest.mark.parametrize("dialect", NAMES)
def test_every_row_that_says_served_is_a_field_of_the_model(dialect: str) -> None:
    paths = {path for path, _, _ in paths_of(FIELDS[dialect].kind)}
    assert {path for path, row in rows_of(dialect).items() if row.support.of(dialect) == "served"} <= paths


def test_the_table_names_built_in_dialects_alone() -> None:
    assert {name for row in TABLE for name in row.support.named} == set(NAMES)


def test_no_path_has_two_rows_for_one_dialect() -> None:
    for dialect in NAMES:
        paths = [row.path for row in TABLE if row.support.of(dialect)]
        assert len(paths) == len(set(paths)), sorted({path for path in paths if paths.count(path) > 1})


def test_rows_that_are_not_served_somewhere_say_why_or_belong_to_another_dialect() -> None:
    for row in TABLE:
        assert row.about.endswith("."), row.path
        assert row.why or "served" in row.support.named.values(), row.path


def test_every_sampling_option_has_one_row_that_says_where_it_is_sent() -> None:
    assert sorted(row.attribute for row in FORWARDED) == sorted(f.name for f in fields(Sampling))
    assert {row.path for row in SAMPLING} == set(WIRE), "each has an example"


ENGINES_OWN = (
    *("repetition_penalty", "typical_p", "ignore_eos", "stop_token_ids"),
    *("length_penalty", "early_stopping", "num_beam_groups", "diversity_penalty"),
)


@pytest.mark.parametrize("name", ENGINES_OWN)
def test_an_option_that_the_engine_alone_acts_on_is_declared_in_two_files(name: str) -> None:
    """The type of the contract and the table of fields; models, forwarding and the cache's key follow from them."""
    attribute = next(row.attribute for row in SAMPLING if row.path == name)
    packages = [ROOT / package for package in ("gateway", "cache", "grammar", "plugins", "safety")]
    files = [file for package in packages for file in package.rglob("*.py")]
    named = re.compile(rf"\b({name}|{attribute})\b")
    found = {file.relative_to(ROOT).as_posix() for file in files if named.search(file.read_text("utf-8"))}
    tables = {file for file in found if file.startswith("gateway/fields/")}
    told = {"gateway/api/disclosure.py"}  # the words of our answers: a model's own defaults are told in its card
    assert found - tables - told == {"plugins/contract/requests.py"}
    assert "gateway/fields/sampling.py" in tables


@pytest.mark.parametrize(
    ("dialect", "name"),
    [(d, row.path) for row in SAMPLING for d in PARSERS if row.support.of(d) == "served"],
)
def test_every_sampling_option_reaches_the_sampler(dialect: str, name: str) -> None:
    sent, wanted = WIRE[name]
    sent = sent[dialect] if name == "logprobs" else sent
    row = next(row for row in SAMPLING if row.path == name)
    if name == "sluicegate.on_length":
        shape = {"messages": {"output_config": {"format": {"type": "json_schema", "schema": {}}}}}
        shape |= {"responses": {"text": {"format": {"type": "json_object"}}}}
        asked = {**shape.get(dialect, {"regex": "a"}), "sluicegate": {"on_length": sent}}
    else:
        asked = {**NEEDS.get(name, {}), name: sent}
    if name == "top_logprobs" and dialect == "chat":
        asked["logprobs"] = True
    found = PARSERS[dialect]({**BODIES[dialect], **asked}).request.sampling
    assert getattr(found, row.attribute) == wanted != getattr(Sampling(), row.attribute)


@pytest.mark.parametrize(("dialect", "part", "kinds"), [
    ("chat", {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "images"),
    ("chat", {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "audio"),
    ("chat", {"type": "video_url", "video_url": {"url": "https://far.example/v.mp4"}}, "videos"),
    ("chat", {"type": "file", "file": {"file_id": "file-1"}}, "files"),
    ("responses", {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}, "images"),
    ("responses", {"type": "input_file", "file_id": "file-1"}, "files"),
    ("messages", {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, "images"),
])  # fmt: skip
def test_what_is_no_text_is_refused_with_a_sentence_that_says_so(
    dialect: str, part: dict[str, Any], kinds: str
) -> None:
    name = "input" if dialect == "responses" else "messages"
    body = {**BODIES[dialect], name: [{"role": "user", "content": [part]}]}
    with pytest.raises(RequestError, match=f"is not served here; models here read text, no {kinds}; expected") as found:
        PARSERS[dialect](body)
    assert found.value.param == f"{name}[0].content[0].type"


@pytest.mark.parametrize("name", ["top_p", "top_k", "min_p", "repetition_penalty"])
def test_what_asks_for_nothing_is_told_from_what_was_left_out(name: str) -> None:
    """A model's own configuration counts only where a request says nothing."""
    off = next(row for row in SAMPLING if row.path == name).neutral[0]
    for said, wanted in ({name: off}, off), ({name: None}, None), ({}, None):
        found = getattr(PARSERS["chat"]({**BODIES["chat"], **said}).request.sampling, name)
        assert found == wanted


@pytest.mark.parametrize("dialect", list(PARSERS))
def test_neutral_values_pass_and_say_nothing(dialect: str) -> None:
    for name, row in rows_of(dialect).items():
        if not name.isidentifier() or row.support.of(dialect) == "served":
            continue
        for value in (None, *row.neutral):
            assert PARSERS[dialect]({**BODIES[dialect], name: value}).ignored == (), (name, value)


@pytest.mark.parametrize("dialect", list(PARSERS))
def test_whatever_else_a_field_without_effect_says_is_refused_or_reported(dialect: str) -> None:
    """Also `false`, 0 and what is empty, where that is not what the field says by itself."""
    for name, row in rows_of(dialect).items():
        if not name.isidentifier() or row.support.of(dialect) == "served":
            continue
        for value in (True, False, 0, 1, "", "x", [], {}, [1], {"a": 1}):
            if not asks(row, value):
                continue
            body = {**BODIES[dialect], name: value}
            if row.support.of(dialect) == "reported":
                assert PARSERS[dialect](body).ignored == (name,)
                continue
            with pytest.raises(RequestError) as caught:
                PARSERS[dialect](body)
            assert caught.value.param == name


@pytest.mark.parametrize("row", FORWARDED, ids=lambda row: row.path)
@pytest.mark.parametrize("dialect", sorted(SERVER_DIALECTS))
def test_an_option_is_sent_to_the_servers_that_know_it_and_refused_for_others(dialect: Any, row: Any) -> None:
    sampling = Sampling(**{row.attribute: WIRE[row.path][1]})
    request = Request("r", "m", (Message("user", "x"),), sampling)
    settings = UpstreamModelSettings("https://example.com/v1", dialect=dialect)
    if row.is_known_to(dialect):
        assert row.path in body_of(request, settings, "m")
        json.dumps(body_of(request, settings, "m"))
    else:
        with pytest.raises(RequestError) as caught:
            body_of(request, settings, "m")
        assert caught.value.param == row.path


def test_the_page_of_fields_is_what_the_table_says() -> None:
    """`python -m sluicegate.gateway.api.fields_page > docs/fields.md` renews it."""
    assert (ROOT / "docs" / "fields.md").read_text("utf-8") == page()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("temprature", "temperature"),
        ("Temperature", "temperature"),
        ("temperatrue", "temperature"),
        ("maxTokens", "max_tokens"),
        ("max-tokens", "max_tokens"),
        ("max_token", "max_tokens"),
        ("topP", "top_p"),
        ("repition_penalty", "repetition_penalty"),
        ("reponse_format", "response_format"),
        ("responseformat", "response_format"),
        ("stop_sequence", "stop_sequences"),
        ("flavour", None),
        ("brand_new", None),
        ("x", None),
        ("", None),
        ("a\r\nset-cookie: x", None),
    ],
)
def test_a_name_that_looks_mistyped_is_told_from_a_new_one(name: str, meant: str | None) -> None:
    assert Nearest(path for path in rows_of("chat") if path.isidentifier()).find(name) == meant


@given(st.sampled_from(sorted(WIRE)), st.data())
def test_one_wrong_letter_is_always_found(name: str, data: st.DataObject) -> None:
    near = Nearest(WIRE)
    place = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcxyz"))
    before, after = name[:place], name[place + 1 :]
    for wrong in (before + after, before + letter + name[place:], before + letter + after):
        assert near.find(wrong) is not None


def nested(levels: int) -> Any:
    tree: Any = 1
    for _ in range(levels):
        tree = [tree]
    return tree


def test_a_body_nests_as_deep_as_stated_and_no_deeper() -> None:
    read_json(json.dumps({"a": nested(MAX_DEPTH - 1)}).encode())
    with pytest.raises(RequestError) as caught:
        read_json(json.dumps({"a": {"b": nested(MAX_DEPTH - 1)}}).encode())
    assert (caught.value.code, caught.value.param) == ("nested_too_deeply", "a.b[0][0][0][0]")


def test_brackets_in_texts_are_no_depth() -> None:
    assert read_json(json.dumps({"a": "[" * 5000, "b": [[]] * 300}).encode())


def test_a_body_without_a_dialect_reports_what_it_does_not_know() -> None:
    class Some(Wire):
        purpose: str = ""

    fields_of_it = BodyFields(Some)
    assert fields_of_it.unknown({"other": False}) == ["other"]
    with pytest.raises(RequestError, match="did you mean `purpose`"):
        fields_of_it.unknown({"porpose": 1})
