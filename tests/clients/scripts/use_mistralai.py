"""mistralai."""

import json

from features import EMBEDDER, PLAIN, REAL, SAID, SCRIPTED, SUNNY, WEATHER, feature, run
from mistralai.client import Mistral
from person import CLARA, Person

real, scripted = Mistral(api_key="none", server_url=REAL), Mistral(api_key="none", server_url=SCRIPTED)


@feature("chat")
def chat() -> None:
    assert scripted.chat.complete(model="scripted", messages=SAID).choices[0].message.content == PLAIN


@feature("chat, streamed")
def streamed() -> None:
    events = scripted.chat.stream(model="scripted", messages=SAID)
    assert "".join(event.data.choices[0].delta.content or "" for event in events) == PLAIN


@feature("schema")
def schema() -> None:
    found = real.chat.parse(Person, model="bundled", messages=SAID, temperature=0)
    assert found.choices[0].message.parsed == CLARA


@feature("JSON mode")
def json_mode() -> None:
    asked = {"type": "json_object"}
    found = real.chat.complete(model="bundled", messages=SAID, response_format=asked, max_tokens=200)
    assert isinstance(json.loads(found.choices[0].message.content), dict)


@feature("tools, tool_choice any")
def tools() -> None:
    first = scripted.chat.complete(model="scripted", messages=SAID, tools=[WEATHER], tool_choice="any")
    [call] = first.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    result = {"role": "tool", "name": "get_weather", "tool_call_id": call.id, "content": "sunny"}
    history = [*SAID, first.choices[0].message, result]
    assert (
        scripted.chat.complete(model="scripted", messages=history, tools=[WEATHER]).choices[0].message.content == SUNNY
    )


@feature("seed, safe_prompt")
def options() -> None:
    scripted.chat.complete(model="scripted", messages=SAID, random_seed=7, safe_prompt=False)


@feature("embeddings")
def embeddings() -> None:
    assert len(real.embeddings.create(model=EMBEDDER, inputs=["one"]).data[0].embedding) == 32


@feature("fill in the middle", refused="models served here write forward only")
def fim() -> None:
    real.fim.complete(model="bundled", prompt="def f(", suffix="return a")


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    real.chat.complete(model="nope", messages=SAID)


run()
