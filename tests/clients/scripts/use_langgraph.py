"""langgraph."""

from features import QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from person import Person

COMMON = {"api_key": "none", "max_retries": 0}


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


scripted = ChatOpenAI(base_url=f"{SCRIPTED}/v1", model="scripted", **COMMON)


@feature("agent with a tool")
def agent() -> None:
    found = create_react_agent(scripted, [get_weather]).invoke({"messages": QUESTION})
    assert found["messages"][-1].content == SUNNY


@feature("agent with a tool, streamed")
def streamed() -> None:
    parts = create_react_agent(scripted, [get_weather]).stream({"messages": QUESTION}, stream_mode="messages")
    said = "".join(part.content for part, _ in parts if type(part).__name__ == "AIMessageChunk")
    assert said == SUNNY


@feature("answer by a schema")
def schema() -> None:
    real = ChatOpenAI(base_url=f"{REAL}/v1", model="bundled", temperature=0, max_tokens=200, **COMMON)
    found = create_react_agent(real, [], response_format=Person).invoke({"messages": QUESTION})
    assert isinstance(found["structured_response"], Person)


run()
