"""anthropic: parse, tools (demanded and free), streams, errors. Arguments: a real gateway, a scripted one."""

import sys

import anthropic
from pydantic import BaseModel

real = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
scripted = anthropic.Anthropic(base_url=sys.argv[2], api_key="none", max_retries=0)


class Person(BaseModel):
    name: str
    city: str


SAID = [{"role": "user", "content": "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."}]
CLARA = Person(name="Clara Winther", city="Aarhus")
COLD = {"extra_body": {"temperature": 0}}
WEATHER = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}

parsed = real.messages.parse(model="bundled", max_tokens=200, messages=SAID, output_format=Person, **COLD)
assert parsed.parsed_output == CLARA

save = {"name": "save_person", "input_schema": Person.model_json_schema()}
called = real.messages.create(
    model="bundled", max_tokens=200, messages=SAID, tools=[save], tool_choice={"type": "any"}, **COLD
)
assert called.stop_reason == "tool_use"
assert Person.model_validate(called.content[0].input) == CLARA

with scripted.messages.stream(model="scripted", max_tokens=200, messages=SAID, tools=[WEATHER]) as stream:
    kinds = [event.type for event in stream]
    first = stream.get_final_message()
assert "input_json" in kinds
[use] = [block for block in first.content if block.type == "tool_use"]
assert use.input == {"city": "Oslo"}
result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
history = [*SAID, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
second = scripted.messages.create(model="scripted", max_tokens=200, messages=history, tools=[WEATHER])
assert second.content[0].text == "It is sunny in Oslo."

try:
    real.messages.create(model="nope", max_tokens=9, messages=SAID)
except anthropic.NotFoundError as error:
    assert error.body["error"]["type"] == "not_found_error" and error.request_id
else:
    raise AssertionError("an unknown model was answered")
print("ok")
