"""huggingface_hub's InferenceClient."""

import json

from features import CLARA as FIELDS
from features import PLAIN, REAL, SAID, SCHEMA, SCRIPTED, WEATHER, feature, run
from huggingface_hub import InferenceClient

real, scripted = InferenceClient(base_url=REAL, api_key="none"), InferenceClient(base_url=SCRIPTED, api_key="none")


@feature("chat")
def chat() -> None:
    assert scripted.chat_completion(SAID, model="scripted").choices[0].message.content == PLAIN


@feature("chat, streamed")
def streamed() -> None:
    parts = scripted.chat.completions.create(messages=SAID, model="scripted", stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == PLAIN


@feature("schema")
def schema() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    found = real.chat_completion(SAID, model="bundled", response_format=form, temperature=0)
    assert json.loads(found.choices[0].message.content) == FIELDS


@feature("tools")
def tools() -> None:
    found = scripted.chat_completion(SAID, model="scripted", tools=[WEATHER], tool_choice="auto")
    [call] = found.choices[0].message.tool_calls
    assert call.function.name == "get_weather"


@feature("text generation of TGI", refused="TGI's interface")
def generation() -> None:
    InferenceClient(model=REAL, api_key="none").text_generation("Say it.")


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    real.chat_completion(SAID, model="nope")


run()
