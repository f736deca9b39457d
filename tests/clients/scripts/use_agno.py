"""agno."""

from agno.agent import Agent
from agno.models.openai import OpenAIResponses
from agno.models.openai.like import OpenAILike
from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from person import CLARA, Person


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


def model(url: str, name: str, **more) -> OpenAILike:
    return OpenAILike(id=name, base_url=f"{url}/v1", api_key="none", max_retries=0, **more)


@feature("plain")
def plain() -> None:
    assert Agent(model=model(SCRIPTED, "scripted"), telemetry=False).run("Say it.").content == PLAIN


@feature("streamed")
def streamed() -> None:
    parts = Agent(model=model(SCRIPTED, "scripted"), telemetry=False).run("Say it.", stream=True)
    assert "".join(part.content or "" for part in parts if part.event == "RunContent") == PLAIN


@feature("schema")
def schema() -> None:
    asked = model(REAL, "bundled", temperature=0, supports_native_structured_outputs=True)
    assert Agent(model=asked, output_schema=Person, telemetry=False).run(QUESTION).content == CLARA


@feature("agent with a tool")
def agent() -> None:
    made = Agent(model=model(SCRIPTED, "scripted"), tools=[get_weather], telemetry=False)
    assert made.run(QUESTION).content == SUNNY


@feature("responses, agent with a tool")
def responses() -> None:
    asked = OpenAIResponses(id="scripted", base_url=f"{SCRIPTED}/v1", api_key="none", max_retries=0, store=False)
    assert Agent(model=asked, tools=[get_weather], telemetry=False).run(QUESTION).content == SUNNY


run()
