"""strands."""

from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from person import Person
from strands import Agent, tool
from strands.models.openai import OpenAIModel


def model(url: str, name: str, **params) -> OpenAIModel:
    return OpenAIModel(
        client_args={"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}, model_id=name, params=params
    )


@tool
def get_weather(city: str) -> str:
    """Return the weather in a city.

    Args:
        city: its name
    """
    return f"sunny in {city}"


@feature("plain, streamed")
def plain() -> None:
    assert str(Agent(model=model(SCRIPTED, "scripted"), callback_handler=None)("Say it.")).strip() == PLAIN


@feature("agent with a tool, streamed")
def agent() -> None:
    made = Agent(model=model(SCRIPTED, "scripted"), tools=[get_weather], callback_handler=None)
    assert str(made(QUESTION)).strip() == SUNNY


@feature("structured output")
def structured() -> None:
    made = Agent(model=model(REAL, "bundled", temperature=0), callback_handler=None)
    assert made.structured_output(Person, QUESTION) == Person(name="Clara Winther", city="Aarhus")


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    Agent(model=model(REAL, "nope"), callback_handler=None)("x")


run()
