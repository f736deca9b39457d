"""The playground: every field of its request, the lint beside its schema, and copies that run as they are."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.console.browser import Browser
from tests.console.conftest import HOSTILE, KEY, enter, needs_chromium
from tests.console.operating import choose, fill, press, shows
from tests.gateway.conftest import RunningGateway

pytestmark = needs_chromium
NASTY = f"{HOSTILE} $(touch /tmp/pwned) `id` ' '' \" \\ \nJSON\n%s {{x}} 😀 \u2028 é"
SCHEMA = (
    '{"type": "object", "properties": {"na\\/me": {"type": "string", "maxLength": 40, "description": '
    '"\\ud83d\\ude00 \'\'\' \\"\\"\\" \\\\"}, "__proto__": {"type": "integer", "minimum": 0, "maximum": 9}, "on": '
    '{"enum": [true, false, null]}}, "required": ["na\\/me", "__proto__", "on"], "additionalProperties": false}'
)


def written(browser: Browser, language: str) -> str:
    press(browser, language)
    return str(browser.js("document.getElementById('copy').textContent"))


def ran(*command: str, **environ: str) -> Any:
    """Run a copied command, and return what it prints as JSON. It gets the key as its user would give it."""
    environ = {**os.environ, "SLUICEGATE_API_KEY": KEY, **environ}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def filled(gateway: RunningGateway, browser: Browser) -> Browser:
    """Fill the playground with all that shells, Python and JavaScript could take for something else."""
    enter(gateway, browser, "playground")
    for id, value in (("prompt", NASTY), ("system", NASTY), ("schema", SCHEMA)):
        fill(browser, id, value)
    for id, value in (("temperature", ".5"), ("seed", "7"), ("max_tokens", "60"), ("top_k", "20"), ("top_p", "0.9")):
        fill(browser, id, value)
    return browser


def checked(message: Any) -> None:
    answer = json.loads(message["content"])
    assert set(answer) == {"na/me", "__proto__", "on"}


def test_the_copy_for_curl_runs_as_it_is(filled: Browser) -> None:
    text = written(filled, "curl")
    assert KEY not in text
    told = ran("bash", "-c", text)
    checked(told["choices"][0]["message"])
    sent = json.loads(text.partition("<<'JSON'\n")[2].rpartition("\nJSON")[0])
    assert [message["content"] for message in sent["messages"]] == [NASTY, NASTY]
    assert sent["response_format"]["json_schema"]["schema"] == json.loads(SCHEMA)
    assert (sent["temperature"], sent["seed"], sent["top_k"]) == (0.5, 7, 20)


def test_the_copy_for_python_runs_as_it_is(filled: Browser) -> None:
    text = written(filled, "Python")
    assert KEY not in text
    checked(ran(sys.executable, "-W", "error::SyntaxWarning", "-c", text))


def test_the_copy_for_typescript_says_the_same(filled: Browser, tmp_path: Path) -> None:
    """Its types are taken away and a client stands in for OpenAI's, which prints what it was given."""
    text = written(filled, "TypeScript")
    assert KEY not in text
    client = "class OpenAI { constructor(o) { this.o = o; this.chat = { completions: { create: (r) => "
    client += "({ choices: [{ message: { o: this.o, r } }] }) } } } }"
    plain = text.replace('import OpenAI from "openai";', client)
    plain = plain.replace(": OpenAI.ChatCompletionCreateParamsNonStreaming & Record<string, unknown>", "")
    (tmp_path / "copy.mjs").write_text(plain)
    told = ran("node", str(tmp_path / "copy.mjs"))
    curl = written(filled, "curl")
    assert told["r"] == json.loads(curl.partition("<<'JSON'\n")[2].rpartition("\nJSON")[0])
    assert told["o"]["apiKey"] == KEY


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | st.just("__proto__"), inner),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSONS, st.booleans())
def test_any_json_is_spelled_the_same_in_every_language(
    gateway: RunningGateway, browser: Browser, value: Any, ascii: bool
) -> None:
    """Numbers of any length, escapes that only JSON knows, and keys that mean something to JavaScript."""
    if not browser.js("location.href").startswith(gateway.url):
        enter(gateway, browser, "playground")
    text = json.dumps(value, ensure_ascii=ascii).replace("/", "\\/")
    given_text = json.dumps(text)
    found = browser.js(
        f"import('/console/raw_json.js').then(m => [m.compact({given_text}), m.pretty({given_text}), "
        f"m.asPython({given_text}), m.asScript({given_text}), m.holdsExactly({given_text}), "
        f"JSON.stringify(JSON.parse({given_text}))])"
    )
    assert json.loads(found[0]) == json.loads(found[1]) == value
    assert ast.literal_eval(found[2]) == value
    assert found[4] is (exact(found[5]) == exact(text))


def exact(text: str) -> Any:
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def test_stops_are_sent_a_line_each_where_text_is_free(filled: Browser) -> None:
    fill(filled, "schema", "")
    fill(filled, "stop", "END'\"$x\n</script>\n")
    sent = json.loads(written(filled, "curl").partition("<<'JSON'\n")[2].rpartition("\nJSON")[0])
    assert sent["stop"] == ["END'\"$x", "</script>"]
    assert "response_format" not in sent


def test_numbers_with_more_digits_than_javascript_keeps_reach_the_gateway_whole(
    gateway: RunningGateway, browser: Browser
) -> None:
    enter(gateway, browser, "playground")
    number = "9007199254740993"
    fill(browser, "schema", f'{{"type":"object","properties":{{"n":{{"const":{number}}}}},"required":["n"]}}')
    assert number in written(browser, "curl")
    assert "more digits than JavaScript keeps" in written(browser, "TypeScript")
    press(browser, "Send")
    browser.until("document.querySelector('.token')")
    assert number in browser.js("document.querySelector('.answer').textContent")


def test_the_schema_is_linted_while_it_is_written(gateway: RunningGateway, browser: Browser) -> None:
    """The newest text wins, and what is wrong is said where it is written."""
    enter(gateway, browser, "playground")
    browser.until("document.querySelector('#schema-lint .chip.good')")
    fill(browser, "schema", "{")
    browser.until("document.querySelector('#schema-lint').textContent.includes('not JSON')")
    fill(browser, "schema", '{"type": 7}')
    browser.until("document.querySelector('#schema-lint').textContent.includes('cannot be served')")
    fill(browser, "schema", json.dumps({"type": "object", "properties": {"<b>f1</b>": {"type": "string"}}}))
    browser.until("document.querySelector('#schema-lint').textContent.includes('can be served')")
    browser.js("document.querySelectorAll('#schema-lint details').forEach(d => { d.open = true })")
    shows(browser, "/properties/<b>f1<~1b>")
    assert browser.js("document.querySelectorAll('#schema-lint b').length") == 0
    fill(browser, "schema", '{"type": "string", "format": "colour"}')
    browser.until("document.querySelector('#schema-lint').textContent.includes('not enforced')")
    fill(browser, "schema", "")
    browser.until("document.querySelector('#schema-lint').textContent.includes('free text')")


def test_a_model_calls_a_tool_from_the_playground(gateway: RunningGateway, browser: Browser) -> None:
    enter(gateway, browser, "playground")
    press(browser, "Put an example in")
    choose(browser, "tool_choice", "required")
    fill(browser, "prompt", "What is the weather in Oslo?")
    press(browser, "Send")
    browser.until("document.querySelector('.answer').textContent.includes('get_weather')")
    browser.until("document.querySelector('[role=status].note').textContent.includes('after')")
    assert browser.js("document.querySelector('.answer').textContent").startswith("calls get_weather with {")


@pytest.mark.parametrize(
    ("id", "value", "said"),
    [("tools", "{}", "The list of tools"), ("tools", "[", "not JSON"), ("schema", "{'a': 1}", "not JSON")],
)
def test_what_cannot_be_sent_is_said_and_led_to(
    gateway: RunningGateway, browser: Browser, id: str, value: str, said: str
) -> None:
    enter(gateway, browser, "playground")
    fill(browser, id, value)
    press(browser, "Send")
    shows(browser, said)
    assert browser.js("document.activeElement.id") == id


def test_a_hostile_prompt_schema_and_answer_stay_text(filled: Browser, gateway: RunningGateway) -> None:
    press(filled, "Send")
    filled.until("document.querySelector('.token') || document.body.innerText.includes('Withheld')")
    assert filled.js("window.pwned === undefined")
    assert filled.js("document.querySelectorAll('#main img, #main script').length") == 0
    assert httpx.get(f"{gateway.url}/healthz").status_code == 200
