"""Several servers of one model: callers see one that works while any does, are charged once, and are told the rest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sluicegate.gateway.testing import AppReply, TestApp
from tests.gateway.upstream.fleets import (
    Act,
    FleetServer,
    babbles,
    client_of,
    cuts,
    fails,
    fleet,
    hangs,
    nobody,
    probed,
    says,
)
from tests.waiting import until

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
AS_JSON: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
LONG = "Tell me about rivers and lakes. " * 64


def asked(app: TestApp, text: str = "hi", *, stream: bool = False, **fields: Any) -> AppReply:
    return app.ask(text, stream=stream, model="far", **fields)


def page(running: float = 0, waiting: float = 0, usage: float = 0) -> bytes:
    return (
        f'# HELP vllm:num_requests_running x\nvllm:num_requests_running{{engine="0",model_name="m"}} {running}\n'
        f'vllm:num_requests_waiting{{engine="0"}} {waiting}\nvllm:kv_cache_usage_perc {usage}\n'
    ).encode()


MISBEHAVIOUR: dict[str, Act | None] = {
    "dead": None,
    "500": fails(500),
    "503": fails(503),
    "401": fails(401),
    "404": fails(404),
    "302": fails(302),
    "hangs": hangs,
    "cuts before a text": cuts(),
    "no stream": babbles,
}


@pytest.mark.parametrize("way", MISBEHAVIOUR)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_one_of_three_that_misbehaves_is_noticed_by_no_caller_and_charged_to_none(way: str, stream: bool) -> None:
    """Every request is answered, and its usage is that of one answer."""
    act = MISBEHAVIOUR[way]
    bad = None if act is None else FleetServer(act)
    good = [FleetServer(says("one")), FleetServer(says("two"))]
    with fleet(bad, *good, first_s=0.5, whole_s=0.5, choice="load") as app:
        replies = [asked(app, f"{at} hello", stream=stream) for at in range(12)]
        assert {reply.status for reply in replies} == {200}
        assert {reply.text for reply in replies} <= {"one", "two"}
        usages = {(one.usage.prompt_tokens, one.usage.completion_tokens) for one in app.wait_for_outcomes(12)}
        assert usages == {(11, 7)}


def test_a_server_that_cuts_after_the_first_text_ends_that_stream_as_an_error_and_is_left_alone() -> None:
    """What has left cannot be taken back, so nothing is tried again; with enough of them the others answer alone."""
    bad, good = FleetServer(cuts("Hel")), FleetServer(says("Hello"))
    with fleet(bad, good, choice="load", failures_to_open=2) as app:
        replies = [asked(app, f"{at} hello", stream=True) for at in range(12)]
        broken = [reply for reply in replies if reply.error is not None]
        assert {reply.error["code"] for reply in broken if reply.error} == {"upstream_failed"}
        assert [reply.text for reply in broken] == ["Hel"] * len(bad.asked)
        assert len(bad.asked) == 2
        assert len(good.asked) == 10


def test_a_wrong_answer_is_asked_for_again_and_is_no_reason_to_leave_its_server_alone() -> None:
    """A caller who asks for what a model cannot do must not take servers from others."""
    servers = [FleetServer(says('{"a": "one"}')) for _ in range(2)]
    with fleet(*servers, failures_to_open=1, attempts=2) as app:
        for _ in range(4):
            assert asked(app, **AS_JSON).status == 502
        assert client_of(app).left_alone == []
        for server in servers:
            server.act = says('{"a": 1}')
        assert asked(app, **AS_JSON).text == '{"a": 1}'


def test_where_none_answers_the_error_says_what_was_tried_and_names_no_address() -> None:
    sick = FleetServer(fails(500))
    with fleet(None, sick, None, probe_s=30.0) as app:
        reply = asked(app)
        assert reply.error is not None
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
        said = reply.error["message"]
        assert "none of the 3 servers behind model 'far' answered" in said
        assert "server 1 cannot be reached" in said
        assert "server 2 failed with status 500" in said
        assert "127.0.0.1" not in said


def test_servers_that_do_not_answer_their_probes_are_named_as_such() -> None:
    sick = FleetServer(fails(500))
    with fleet(None, sick) as app:
        until(lambda: len(client_of(app).left_alone) == 1)
        reply = asked(app)
        assert reply.error is not None
        assert "server 2 failed with status 500; server 1 does not answer its probes" in reply.error["message"]


def test_where_all_are_dead_callers_are_soon_told_when_to_come_back() -> None:
    with fleet(None, None, failures_to_open=1, probe_s=30.0) as app:
        statuses = [asked(app).status for _ in range(4)]
        assert statuses == [502, 503, 503, 503]
        reply = asked(app)
        assert reply.error is not None
        assert "server 1 is left alone; server 2 is left alone" in reply.error["message"]


def test_of_servers_that_answer_badly_only_a_share_is_left_alone() -> None:
    """Whoever makes servers fail by what it asks takes half of them from others at most."""
    servers = [FleetServer(fails(500)) for _ in range(4)]
    with fleet(*servers, failures_to_open=1, eject_share=0.5, retries=8) as app:
        for _ in range(4):
            asked(app)
        assert len(client_of(app).left_alone) == 2
        for server in servers:
            server.act = says("back")
        assert asked(app).text == "back"


def test_a_server_that_comes_and_goes_is_asked_while_it_is_there(free_port: int) -> None:
    """Nothing is lost while it is away, and its probes bring it back before its pause is over."""
    steady, flapping = FleetServer(says("steady")), FleetServer(says("flapping"))
    with steady.running():
        urls = [steady.url, f"http://127.0.0.1:{free_port}/v1"]
        model = {"urls": urls, "allow_private": True, "dialect": "vllm", "probe_s": 0.05, "pause_s": 60.0}
        model |= {"choice": "load", "failures_to_open": 1}
        stages = {"generate": {"upstream": {"models": {"far": model}}}}
        with TestApp(pipeline={"generate": ["upstream"]}, stages=stages) as app:
            for _ in range(3):
                replies = [asked(app, f"{at} hello") for at in range(6)]
                assert [reply.text for reply in replies] == ["steady"] * 6
                before = len(flapping.asked)
                with flapping.running(free_port):
                    until(lambda: not client_of(app).left_alone)
                    probed(app, flapping)
                    seen = {asked(app, f"{at} hello").text for at in range(12)}
                    assert seen == {"steady", "flapping"}
                assert len(flapping.asked) > before


@pytest.fixture
def free_port() -> int:
    with nobody() as address:
        return int(address.rsplit(":", 1)[1].removesuffix("/v1"))


def test_a_server_whose_probe_fails_is_not_asked_unless_all_fail() -> None:
    sick, well = FleetServer(says("sick"), health=503), FleetServer(says("well"))
    with fleet(sick, well, choice="load") as app:
        probed(app, sick, well)
        assert {asked(app, f"{at} hello").text for at in range(6)} == {"well"}
        assert any("server 1 of the 2" in trouble.reason for trouble in generator_of(app).troubles())
        well.health = 500  # a path that nobody serves must not take a whole fleet out
        probed(app, sick, well)
        assert asked(app).status == 200


def generator_of(app: TestApp) -> Any:
    return app.runtime.pipeline.stages.generate[1]


def test_the_least_loaded_by_its_own_account_is_asked() -> None:
    """Others ask it too: what it reports counts beside what we sent."""
    busy, idle = FleetServer(says("busy"), page(running=20, waiting=5)), FleetServer(says("idle"), page())
    with fleet(busy, idle, choice="load") as app:
        probed(app, busy, idle)
        assert {asked(app, f"{at} hello").text for at in range(6)} == {"idle"}
        busy.page, idle.page = page(), page(running=30)
        probed(app, busy, idle)
        assert {asked(app, f"{at} hello").text for at in range(6)} == {"busy"}


def test_a_full_cache_counts_as_load() -> None:
    full, other = FleetServer(says("full"), page(usage=0.99)), FleetServer(says("other"), page(running=3, usage=0.5))
    with fleet(full, other) as app:
        probed(app, full, other)
        assert {asked(app, LONG).text for _ in range(6)} == {"other"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\x00" * 1000,
        b"vllm:num_requests_running NaN\nvllm:num_requests_waiting -5\nvllm:kv_cache_usage_perc +Inf\n",
        b"vllm:num_requests_running 1e300\n",
        b"vllm:num_requests_running{" * 10_000,
        b"<html>" + b"x" * 5_000_000,
        b"vllm:num_requests_running lots\n",
    ],
    ids=["bytes", "no numbers", "huge", "braces", "long", "words"],
)
def test_a_page_of_garbage_is_no_load_and_no_failure(garbage: bytes) -> None:
    """Both are asked as if neither had said anything."""
    odd, plain = FleetServer(says("odd"), garbage), FleetServer(says("plain"))
    with fleet(odd, plain, choice="load") as app:
        probed(app, odd, plain)
        assert {asked(app, f"{at} hello").text for at in range(16)} == {"odd", "plain"}
        assert client_of(app).left_alone == []


def test_prompts_that_begin_alike_go_to_the_server_that_has_read_them() -> None:
    servers = [FleetServer(says(str(at))) for at in range(4)]
    with fleet(*servers) as app:
        for topic in range(8):
            begun = f"{topic} {LONG}"
            texts = [asked(app, begun + f" Question {at}.").text for at in range(4)]
            assert len(set(texts)) == 1, texts
        assert sum(bool(server.asked) for server in servers) > 1
        assert client_of(app).by_prefix == 8 * 3


def test_one_beginning_of_all_prompts_does_not_go_to_one_server_alone() -> None:
    servers = [FleetServer(says("x", wait_s=0.3)) for _ in range(4)]
    with fleet(*servers) as app, ThreadPoolExecutor(16) as pool:
        assert {reply.status for reply in pool.map(lambda at: asked(app, LONG + str(at)), range(16))} == {200}
    assert max(len(server.asked) for server in servers) <= 7


def test_a_slow_server_gets_less() -> None:
    slow, quick = FleetServer(says("slow", wait_s=0.4)), FleetServer(says("quick"))
    with fleet(slow, quick, choice="load") as app, ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda at: asked(app, f"{at}").text, range(40)))
    assert texts.count("slow") < 12


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_each_try_has_a_span_of_its_own_which_its_server_was_told(stream: bool) -> None:
    """With what became of it; the trace goes on at the server below that try, not below the request."""
    first, second = FleetServer(fails(500)), FleetServer(fails(500))
    found: list[Any] = []
    with fleet(first, second, retries=2) as app:
        tries = _tries(app, lambda: asked(app, stream=stream), found)
    assert [one.outcome for one in tries[:2]] == ["status_500", "status_500"]
    assert [one.number for one in tries] == list(range(len(tries)))
    told = [server.heads[0]["traceparent"].split("-") for server in (first, second)]
    assert {span for _, _, span, _ in told} == {f"{one.span_id:016x}" for one in tries[:2]}
    assert {trace for _, trace, _, _ in told} == {f"{found[0].ids.trace_id:032x}"}


def test_a_try_that_was_answered_says_so_and_why_its_server_was_chosen() -> None:
    servers = [FleetServer(), FleetServer()]
    with fleet(*servers) as app:
        for chosen_by in ("load", "prefix"):
            [one] = _tries(app, lambda: asked(app, LONG, stream=True), [])
            assert (one.outcome, one.status, one.chosen_by) == ("answered", 200, chosen_by)
            assert one.ended_s is not None


def _tries(app: TestApp, act: Callable[[], object], found: list[Any]) -> Any:
    sink = app.runtime.trace_sink
    before = sink.seen
    act()
    until(lambda: sink.seen > before)
    found.append(next(sink.recent()))
    return found[0].tries


def test_servers_that_cannot_be_are_refused_at_the_start() -> None:
    from sluicegate.gateway.upstream.settings import UpstreamSettings
    from sluicegate.plugins import ConfigurationError, read_settings

    for table, complaint in (
        ({}, "needs url"),
        ({"url": "https://a.example/v1", "urls": ["https://b.example/v1"]}, "not both"),
        ({"urls": ["https://a.example/v1", "https://a.example/v1/"]}, "twice"),
        ({"urls": ["https://a.example/v1", "http://10.0.0.1/v1"]}, "not a public address"),
    ):
        with pytest.raises(ConfigurationError, match=complaint):
            read_settings(UpstreamSettings, {"models": {"far": table}}, "stages.generate.upstream")
