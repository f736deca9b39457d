"""openai: parse, tools (demanded and free), responses, streams, errors. Arguments: a real gateway, a scripted one."""

import json
import sys

import openai
from openai import OpenAI
from pydantic import BaseModel

real = OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0)
scripted = OpenAI(base_url=f"{sys.argv[2]}/v1", api_key="none", max_retries=0)


class Person(BaseModel):
    name: str
    city: str


SAID = [{"role": "user", "content": "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."}]
CLARA = Person(name="Clara Winther", city="Aarhus")
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}

# structured, whole and streamed, in both interfaces
whole = real.chat.completions.parse(model="bundled", messages=SAID, response_format=Person, temperature=0)
assert whole.choices[0].message.parsed == CLARA
with real.chat.completions.stream(model="bundled", messages=SAID, response_format=Person, temperature=0) as stream:
    pieces = [event.delta for event in stream if event.type == "content.delta"]
assert Person.model_validate_json("".join(pieces)) == CLARA
answer = real.responses.parse(model="bundled", input=SAID, text_format=Person, temperature=0)
assert answer.output_parsed == CLARA

# tools: demanded of the real model, then a whole turn with a result
tool = openai.pydantic_function_tool(Person, name="save_person")
called = real.chat.completions.parse(
    model="bundled", messages=SAID, tools=[tool], tool_choice="required", temperature=0, parallel_tool_calls=False
)
assert called.choices[0].message.tool_calls[0].function.parsed_arguments == CLARA
first = scripted.chat.completions.create(model="scripted", messages=SAID, tools=[WEATHER])
[call] = first.choices[0].message.tool_calls
assert json.loads(call.function.arguments) == {"city": "Oslo"}
history = [*SAID, first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
second = scripted.chat.completions.create(model="scripted", messages=history, tools=[WEATHER])
assert second.choices[0].message.content == "It is sunny in Oslo."
with scripted.chat.completions.stream(model="scripted", messages=SAID, tools=[WEATHER]) as stream:
    kinds = {event.type for event in stream}
assert "tool_calls.function.arguments.done" in kinds

# errors
try:
    real.chat.completions.create(model="nope", messages=SAID)
except openai.NotFoundError as error:
    assert error.code == "model_not_found" and error.request_id
else:
    raise AssertionError("an unknown model was answered")
print("ok")
