"""langchain-openai: structured output by schema and by function, bound tools, streams, errors."""

import sys

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    city: str


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


SAID = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
CLARA = Person(name="Clara Winther", city="Aarhus")
real = ChatOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", model="bundled", temperature=0, max_retries=0)
scripted = ChatOpenAI(base_url=f"{sys.argv[2]}/v1", api_key="none", model="scripted", max_retries=0)

for method in ("json_schema", "function_calling"):
    assert real.with_structured_output(Person, method=method).invoke(SAID) == CLARA, method

bound = scripted.bind_tools([get_weather])
first = bound.invoke(SAID)
[call] = first.tool_calls
assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
assert bound.invoke([HumanMessage(SAID), first, result]).content == "It is sunny in Oslo."

whole = None
for chunk in bound.stream(SAID):
    whole = chunk if whole is None else whole + chunk
assert whole.tool_calls[0]["args"] == {"city": "Oslo"}

try:
    ChatOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", model="nope", max_retries=0).invoke(SAID)
except openai.NotFoundError as error:
    assert error.code == "model_not_found"
else:
    raise AssertionError("an unknown model was answered")
print("ok")
