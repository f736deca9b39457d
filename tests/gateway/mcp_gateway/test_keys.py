"""Who may call what, how much of it, and what is written down of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from sluicegate.gateway.api.body.reader import check_values
from sluicegate.gateway.api.endpoints import mcp as endpoint
from sluicegate.gateway.mcp.mcp_gateway import may_use
from sluicegate.gateway.mcp.schemas import CompiledSchema
from sluicegate.gateway.request.guarding import screening
from sluicegate.gateway.telemetry.span_builder import spans_of
from sluicegate.plugins import Caller
from sluicegate.plugins.contract.texts import texts_of
from tests.gateway.mcp_gateway.agents import agent, call, gateway, key, listed, refused, text_of
from tests.gateway.mcp_gateway.servers import Tools, upstream
from tests.gateway.serving import serving

KEYED: dict[str, Any] = {"pipeline": {"admit": ["api-keys", "limits"], "record": ["ledger"]}}


def two_tools() -> Tools:
    return Tools().add("read").add("write")


# --- allow-lists ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "server", "tool", "fits"),
    [
        (None, "a", "x", True),
        (["a"], "a", "x", True),
        (["a"], "ab", "x", False),
        (["a/x"], "a", "x", True),
        (["a/x"], "a", "xy", False),
        (["a/x"], "a", None, True),
        (["a/r_*"], "a", "r_1", True),
        (["*/x"], "b", "x", True),
        (["b"], "a", None, False),
        (["a/"], "a", "x", True),
        (["*"], "sluicegate", "generate", True),
    ],
)
def test_a_pattern_names_a_server_or_its_tools(
    patterns: list[str] | None, server: str, tool: str | None, fits: bool
) -> None:
    caller = Caller(mcp=None if patterns is None else frozenset(patterns))
    assert may_use(caller, server, tool, is_open=True) is fits
    if patterns is None:
        assert not may_use(caller, server, tool, is_open=False)


def test_what_a_key_may_not_use_does_not_exist_for_it() -> None:
    keys = [key("all"), key("reader", mcp=["files/read"]), key("none", mcp=["other"])]
    files, hidden = two_tools(), two_tools()
    with (
        upstream(files) as first,
        upstream(hidden) as second,
        gateway({"files": {"url": first}, "shut": {"url": second, "open": False}}, keys=keys, **KEYED) as app,
    ):
        assert listed(app, by="all") == ["files__read", "files__write"]
        assert listed(app, by="reader") == ["files__read"]
        assert listed(app, by="none") == []
        assert text_of(call(app, "read", server="files", by="reader")) == "done"
        assert refused(app, "write", server="files", by="reader")["code"] == "tool_not_found"
        assert refused(app, "shut__read", by="all")["code"] == "server_not_found"
        assert refused(app, "files__read", by="none")["code"] == "server_not_found"
    assert [name for name, _, _ in files.calls] == ["read"]
    assert not hidden.calls


def test_a_servers_own_list_of_tools_holds_for_every_key() -> None:
    tools = two_tools().add("drop_all")
    with upstream(tools) as url, gateway({"s": {"url": url, "tools": ["re*", "write"]}}) as app:
        assert listed(app, server="s") == ["read", "write"]
        assert refused(app, "drop_all", server="s")["code"] == "tool_not_found"


def test_a_server_gets_its_own_credentials_and_never_the_callers() -> None:
    tools = two_tools()
    settings = {"headers": {"authorization": "Bearer of-the-gateway"}}
    with upstream(tools) as url, gateway({"s": {"url": url, **settings}}, keys=[key("a")], **KEYED) as app:
        call(app, "read", server="s", by="a", headers={"x-private": "secret-a", "cookie": "secret-a"})
    assert tools.headers[0]["authorization"] == "Bearer of-the-gateway"
    assert "secret-a" not in str(tools.headers) + str(tools.calls)


# --- sessions -------------------------------------------------------------------------------------------------------


def test_another_keys_session_gives_nothing() -> None:
    keys = [key("a", mcp=["s"]), key("b", mcp=["other"])]
    with upstream(two_tools()) as url, gateway({"s": {"url": url}}, keys=keys, **KEYED) as app:
        for mode in ("auto", "legacy"):
            agent(app, lambda client: client.list_tools(), by="a", mode=mode, server="s")
            fixed = {"mcp-session-id": "11111111111111111111111111111111"}
            assert listed(app, by="b", mode=mode, headers=fixed) == []
            assert refused(app, "s__read", by="b", mode=mode, headers=fixed)["code"] == "server_not_found"


def test_tenants_share_no_session_of_a_server() -> None:
    """An older server with sessions sees one for each tenant, and one for lists."""
    tools = two_tools()
    keys = [key("a", tenant="one"), key("b", tenant="two"), key("c", tenant="two")]
    app_of_server = tools.server().streamable_http_app()
    with (
        serving(_only_legacy(app_of_server)) as url,
        gateway({"s": {"url": f"{url}/mcp"}}, keys=keys, **KEYED) as app,
    ):
        for who in ("a", "b", "c", "a"):
            call(app, "read", server="s", by=who)
    sessions = [headers["mcp-session-id"] for headers in tools.headers]
    assert sessions[0] == sessions[3] != sessions[1] == sessions[2]


def _only_legacy(app: Any) -> Any:
    """Wrap a server so that it does not know the revision without sessions."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        modern = scope["type"] == "http" and dict(scope["headers"]).get(b"mcp-protocol-version") == b"2026-07-28"
        if modern:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return wrapped


# --- limits ---------------------------------------------------------------------------------------------------------


def test_calls_count_against_the_limits_of_the_key() -> None:
    keys = [key("a", limits={"requests_per_minute": 2})]
    with upstream(two_tools()) as url, gateway({"s": {"url": url}}, keys=keys, **KEYED) as app:
        call(app, "read", server="s", by="a")
        assert refused(app, "nothing", server="s", by="a")["code"] == "tool_not_found"  # asking about costs, too
        error = refused(app, "read", server="s", by="a")
        assert error["code"] == "rate_limit_exceeded"
        assert error["retry_after_s"] > 0


def test_a_run_that_goes_on_for_ever_is_stopped() -> None:
    keys = [key("a", limits={"run_calls": 3})]
    with upstream(two_tools()) as url, gateway({"s": {"url": url}}, keys=keys, **KEYED) as app:
        for _ in range(2):
            call(app, "read", server="s", by="a", run="one")
        asked = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": "Bearer secret-a", "x-sluicegate-run": "one"}
        assert app.client.post("/v1/chat/completions", json=asked, headers=headers).status_code == 200
        assert refused(app, "read", server="s", by="a", run="one")["code"] == "run_limit_exceeded"
        answer = app.client.post("/v1/chat/completions", json=asked, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "run_limit_exceeded")
        assert text_of(call(app, "read", server="s", by="a", run="two")) == "done"
        for _ in range(3):
            call(app, "read", server="s", by="a")
        assert refused(app, "read", server="s", by="a")["code"] == "run_limit_exceeded"


@pytest.mark.parametrize(
    ("limits", "calls", "why"),
    [({"run_tokens": 120}, 3, "tokens"), ({"run_cost": 0.05}, 3, "spent"), ({"run_s": 0}, 2, "gone on")],
    ids=["tokens", "cost", "time"],
)
def test_a_run_ends_at_its_tokens_cost_or_time(limits: dict[str, Any], calls: int, why: str) -> None:
    tools = Tools().add("read", lambda a: "x" * 160)  # 40 tokens
    prices = {"prices": {"mcp/s": {"call": 0.02}, "*": {"input": 1000.0, "output": 1000.0}}}
    options: dict[str, Any] = {"keys": [key("a", limits=limits)], "accounts": prices, **KEYED}
    with upstream(tools) as url, gateway({"s": {"url": url}}, **options) as app:
        said = ""
        for _ in range(calls + 1):
            try:
                call(app, "read", server="s", by="a", run="r")
            except Exception as error:
                said = str(error)
                break
    assert why in said, said


def test_the_depth_of_a_run_goes_on_and_is_bounded() -> None:
    tools = two_tools()
    keys = [key("a", limits={"run_depth": 1})]
    with upstream(tools) as url, gateway({"s": {"url": url}}, keys=keys, **KEYED) as app:
        call(app, "read", server="s", by="a", run="r", depth=1)
        assert refused(app, "read", server="s", by="a", run="r", depth=2)["code"] == "run_limit_exceeded"
        for strange in (-1, "x", 5000, 1.5):
            error = refused(app, "read", server="s", by="a", run="r", depth=strange)  # type: ignore[arg-type]
            assert error["code"] == "invalid_run", strange
        bad = app.client.get("/v1/models", headers={"authorization": "Bearer secret-a", "x-sluicegate-run": "a b"})
        assert bad.json()["error"]["code"] == "invalid_run"
        headers = {"x-sluicegate-run": "of-headers", "x-sluicegate-depth": "2"}
        assert refused(app, "read", server="s", by="a", run="r", headers=headers)["code"] == "run_limit_exceeded"
    [(_, _, meta)] = tools.calls
    assert (meta["sluicegate/run"], meta["sluicegate/depth"]) == ("r", 2)


# --- what is written down -------------------------------------------------------------------------------------------


def test_a_call_is_recorded_as_the_conventions_say_and_without_its_texts() -> None:
    tools = Tools().add("read", lambda a: "the result-text")
    trace = "0af7651916cd43dd8448eb211c80319c"
    with upstream(tools) as url, gateway({"s": {"url": url}}, keys=[key("a")], **KEYED) as app:
        sent = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        call(app, "read", {"q": "the argument-text"}, server="s", by="a", headers=sent, run="r1")
        refused(app, "none", server="s", by="a")
        app.wait_for_outcomes(2)
        second, first = list(app.runtime.trace_sink.recent())[:2]
        metrics = httpx.get(f"{app.url}/metrics", headers={"authorization": "Bearer secret-a"}).text
    root, *below = spans_of(first)
    assert root.name == "tools/call read"
    expected = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"}
    assert expected.items() <= root.attributes.items()
    assert root.attributes["mcp.protocol.version"] == "2026-07-28"
    assert root.attributes["sluicegate.run"] == "r1"
    assert [span.name for span in below if span.attributes.get("mcp.method.name")] == ["tools/call read"]
    assert spans_of(second)[0].attributes["error.type"] == "tool_not_found"
    assert f"{first.ids.trace_id:032x}" == trace
    assert tools.calls[0][2]["traceparent"].split("-")[1] == trace
    assert "-text" not in str(spans_of(first))
    assert "sluicegate_mcp_calls_total 2" in metrics
    outcome = app.outcomes[0]
    assert (outcome.model, outcome.usage.completion_tokens) == ("mcp/s", 4)


# --- own tools ------------------------------------------------------------------------------------------------------


def test_the_gateways_own_tools_generate_by_a_schema_and_screen() -> None:
    options: dict[str, Any] = {
        "script": ['{"city": "Rome"}'],
        "pipeline": {"screen": ["blocklist"]},
        "stages": {"screen": {"blocklist": {"phrases": ["orange-tugboat"], "action": "block"}}},
        "keys": [key("a", mcp=["sluicegate"]), key("b", mcp=["sluicegate/screen"])],
        "mcp": {"own_tools": True},
    }
    options["pipeline"] |= KEYED["pipeline"]
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    with gateway({}, **options) as app:
        assert listed(app, by="a") == ["sluicegate__generate", "sluicegate__screen"]
        assert listed(app, by="b", server="sluicegate") == ["screen"]
        made = call(app, "generate", {"prompt": "Where?", "schema": schema}, server="sluicegate", by="a")
        assert made.structured_content is not None
        assert made.structured_content["value"] == {"city": "Rome"}
        said = call(app, "sluicegate__screen", {"text": "an orange-tugboat"}, by="b").structured_content
        assert said is not None
        assert said["flagged"] is True
        for arguments in ({}, {"prompt": "x"}, {"prompt": "x", "schema": {}, "other": 1}, {"prompt": "x", "schema": 3}):
            assert refused(app, "generate", arguments, server="sluicegate", by="a")["code"] == "invalid_arguments"
        blocked = refused(app, "generate", {"prompt": "orange-tugboat", "schema": {}}, server="sluicegate", by="a")
        assert (blocked["code"], blocked["param"]) == ("content_filter", "prompt")
        typo = {"prompt": "x", "schema": {}, "system": "orange-tugboat"}
        assert refused(app, "generate", typo, server="sluicegate", by="a")["param"] == "system"
        assert (
            refused(app, "generate", {"prompt": "x", "schema": {}}, server="sluicegate", by="b")["code"]
            == "tool_not_found"
        )


def test_a_large_schema_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that reads the whole of it, its check and its texts among it, took 390 ms of the loop for 95,000 words."""
    threads: dict[str, str] = {}
    parsed: list[int] = []

    def noting(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **more: Any) -> Any:
            threads[name] = threading.current_thread().name
            return act(*arguments, **more)

        return noted

    handle = StreamableHTTPSessionManager.handle_request

    async def sizing(self: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send) -> None:
        async def sized() -> Message:
            message = await receive()
            parsed.append(len(message["body"]))
            return message

        await handle(self, scope, sized, send)

    monkeypatch.setattr(StreamableHTTPSessionManager, "handle_request", sizing)
    monkeypatch.setattr(endpoint, "check_values", noting("read", check_values))
    monkeypatch.setattr(CompiledSchema, "complaint", noting("judge", CompiledSchema.complaint))
    monkeypatch.setattr(screening, "texts_of", noting("texts", texts_of))
    options: dict[str, Any] = {
        "script": ['"word 7"'],
        "pipeline": {"screen": ["blocklist"]},
        "stages": {"screen": {"blocklist": {"phrases": ["orange-tugboat"], "action": "block"}}},
        "mcp": {"own_tools": True},
    }
    with gateway({}, **options) as app:
        schema = {"enum": [f"word {n}" for n in range(40_000)]}
        said = refused(app, "generate", {"prompt": "Which?", "schema": schema}, server="sluicegate")
    assert said["code"] == "context_length_exceeded"  # the scripted model is told the schema, and reads 4,096 tokens
    assert set(threads) == {"read", "judge", "texts"}
    assert {name for name in threads.values() if not name.startswith("offloop")} == set()
    assert max(parsed) < 1_000


def test_large_arguments_arrive_although_the_sdk_is_not_given_them() -> None:
    rails: dict[str, Any] = {
        "pipeline": {"screen": ["blocklist"]},
        "stages": {"screen": {"blocklist": {"phrases": ["orange-tugboat"], "action": "block"}}},
    }
    with gateway({}, mcp={"own_tools": True}, **rails) as app:
        for said in ("an orange-tugboat", "a green one"):
            arguments = {"text": "and a word " * 4_000 + said}
            screened = call(app, "screen", arguments, server="sluicegate").structured_content
            assert screened is not None
            assert screened["flagged"] == (said == "an orange-tugboat")


def test_a_large_message_is_refused_beside_the_arguments_of_a_call() -> None:
    """Nothing else that is served needs so much, and the SDK's server would read it on the event loop."""
    with gateway({}, mcp={"own_tools": True}) as app:
        params = {"name": "screen", "arguments": {"text": "x"}, "_meta": {"note": "y" * 40_000}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        accepted = {"accept": "application/json, text/event-stream"}
        answer = app.client.post("/mcp/sluicegate", json=body, headers=accepted)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
        del params["_meta"]
        assert app.client.post("/mcp/sluicegate", json=body, headers=accepted).status_code == 200
