"""langchain-anthropic."""

from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from person import CLARA, Person

COMMON = {"api_key": "none", "max_retries": 0, "max_tokens": 200}
real = ChatAnthropic(base_url=REAL, model="bundled", temperature=0, **COMMON)
scripted = ChatAnthropic(base_url=SCRIPTED, model="scripted", **COMMON)


@tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    assert scripted.invoke("Say it.").text == PLAIN


@feature("streamed")
def streamed() -> None:
    assert "".join(chunk.text for chunk in scripted.stream("Say it.")) == PLAIN


@feature("schema")
def schema() -> None:
    assert real.with_structured_output(Person, method="json_schema").invoke(QUESTION) == CLARA


@feature("schema by a function")
def function() -> None:
    assert real.with_structured_output(Person).invoke(QUESTION) == CLARA


@feature("tools")
def tools() -> None:
    bound = scripted.bind_tools([get_weather])
    first = bound.invoke(QUESTION)
    [call] = first.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    assert bound.invoke([HumanMessage(QUESTION), first, result]).text == SUNNY


@feature("tools, streamed")
def tools_streamed() -> None:
    whole = None
    for chunk in scripted.bind_tools([get_weather]).stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    assert whole.tool_calls[0]["args"] == {"city": "Oslo"}


@feature("token counts")
def counts() -> None:
    assert real.get_num_tokens_from_messages([HumanMessage(QUESTION)]) > 5


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    ChatAnthropic(base_url=REAL, model="nope", **COMMON).invoke(QUESTION)


run()
