"""aisuite."""

import aisuite
from features import PLAIN, REAL, SAID, SCRIPTED, SUNNY, feature, run


def client(url: str) -> aisuite.Client:
    return aisuite.Client({"openai": {"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}})


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    found = client(SCRIPTED).chat.completions.create(model="openai:scripted", messages=SAID)
    assert found.choices[0].message.content == PLAIN


@feature("tools, run by the client")
def tools() -> None:
    found = client(SCRIPTED).chat.completions.create(
        model="openai:scripted", messages=SAID, tools=[get_weather], max_turns=2
    )
    assert found.choices[0].message.content == SUNNY


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    client(REAL).chat.completions.create(model="openai:nope", messages=SAID)


run()
