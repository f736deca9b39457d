"""autogen."""

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from person import CLARA, Person

ABLE = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def client(url: str, model: str, **more) -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(
        model=model, base_url=f"{url}/v1", api_key="none", model_info=ABLE, max_retries=0, **more
    )


async def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
async def plain() -> None:
    assert (await client(SCRIPTED, "scripted").create([UserMessage(content="x", source="u")])).content == PLAIN


@feature("streamed")
async def streamed() -> None:
    made = client(SCRIPTED, "scripted")
    parts = [part async for part in made.create_stream([UserMessage(content="x", source="u")])]
    assert "".join(part for part in parts if isinstance(part, str)) == PLAIN


@feature("schema")
async def schema() -> None:
    made = client(REAL, "bundled", temperature=0)
    found = await made.create([UserMessage(content=QUESTION, source="u")], json_output=Person)
    assert Person.model_validate_json(found.content) == CLARA


@feature("agent with a tool")
async def agent() -> None:
    made = AssistantAgent("a", client(SCRIPTED, "scripted"), tools=[get_weather], reflect_on_tool_use=True)
    assert (await made.run(task=QUESTION)).messages[-1].content == SUNNY


@feature("errors", raises="no model 'nope'")
async def errors() -> None:
    await client(REAL, "nope").create([UserMessage(content="x", source="u")])


run()
