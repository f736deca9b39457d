"""litellm as a client: structured output, tools, streams, errors; through both vendors' interfaces."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # fetch nothing
import litellm
from pydantic import BaseModel

litellm.suppress_debug_info = True


class Person(BaseModel):
    name: str
    city: str


SAID = [{"role": "user", "content": "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."}]
CLARA = Person(name="Clara Winther", city="Aarhus")
REAL = {"api_base": f"{sys.argv[1]}/v1", "api_key": "none", "num_retries": 0}
SCRIPTED = {**REAL, "api_base": f"{sys.argv[2]}/v1"}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}

whole = litellm.completion("openai/bundled", messages=SAID, response_format=Person, temperature=0, **REAL)
assert Person.model_validate_json(whole.choices[0].message.content) == CLARA
pieces = litellm.completion("openai/bundled", messages=SAID, response_format=Person, temperature=0, stream=True, **REAL)
text = "".join(chunk.choices[0].delta.content or "" for chunk in pieces)
assert Person.model_validate_json(text) == CLARA

first = litellm.completion("openai/scripted", messages=SAID, tools=[WEATHER], **SCRIPTED)
[call] = first.choices[0].message.tool_calls
assert json.loads(call.function.arguments) == {"city": "Oslo"}
history = [*SAID, first.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
second = litellm.completion("openai/scripted", messages=history, tools=[WEATHER], **SCRIPTED)
assert second.choices[0].message.content == "It is sunny in Oslo."

other = litellm.completion("anthropic/scripted", messages=SAID, api_base=sys.argv[2], api_key="none", max_tokens=99)
assert other.choices[0].message.content == "Plainly said."

try:
    litellm.completion("openai/nope", messages=SAID, **REAL)
except litellm.exceptions.NotFoundError as error:
    assert "no model 'nope'" in str(error)
else:
    raise AssertionError("an unknown model was answered")
print("ok")
