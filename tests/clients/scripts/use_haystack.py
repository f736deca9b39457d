"""haystack."""

from features import EMBEDDER, PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from haystack.components.agents import Agent
from haystack.components.embedders import OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from person import CLARA, Person

KEY = {"api_key": Secret.from_token("none"), "max_retries": 0}


def generator(url: str, model: str, **more) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(model=model, api_base_url=f"{url}/v1", **KEY, **more)


@tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    [reply] = generator(SCRIPTED, "scripted").run([ChatMessage.from_user("Say it.")])["replies"]
    assert reply.text == PLAIN


@feature("streamed")
def streamed() -> None:
    pieces = []
    made = generator(SCRIPTED, "scripted", streaming_callback=lambda chunk: pieces.append(chunk.content))
    made.run([ChatMessage.from_user("Say it.")])
    assert "".join(pieces) == PLAIN


@feature("schema")
def schema() -> None:
    made = generator(REAL, "bundled", generation_kwargs={"response_format": Person, "temperature": 0})
    [reply] = made.run([ChatMessage.from_user(QUESTION)])["replies"]
    assert Person.model_validate_json(reply.text) == CLARA


@feature("agent with a tool")
def agent() -> None:
    made = Agent(chat_generator=generator(SCRIPTED, "scripted"), tools=[get_weather])
    assert made.run([ChatMessage.from_user(QUESTION)])["messages"][-1].text == SUNNY


@feature("embeddings")
def embeddings() -> None:
    made = OpenAITextEmbedder(model=EMBEDDER, api_base_url=f"{REAL}/v1", **KEY)
    assert len(made.run("one")["embedding"]) == 32


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    generator(REAL, "nope").run([ChatMessage.from_user("x")])


run()
