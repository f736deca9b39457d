"""openai-agents, the Agents SDK."""

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from features import QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from openai import AsyncOpenAI
from person import CLARA, Person

set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


def chat(url: str, name: str):
    return OpenAIChatCompletionsModel(name, AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))


def responses(url: str, name: str):
    return OpenAIResponsesModel(name, AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))


async def schema(make) -> None:
    agent = Agent("a", model=make(REAL, "bundled"), output_type=Person, model_settings=ModelSettings(temperature=0))
    assert (await Runner.run(agent, QUESTION)).final_output == CLARA


async def tool(make) -> None:
    agent = Agent("a", model=make(SCRIPTED, "scripted"), tools=[get_weather])
    assert (await Runner.run(agent, QUESTION)).final_output == SUNNY


async def streamed(make) -> None:
    agent = Agent("a", model=make(SCRIPTED, "scripted"), tools=[get_weather])
    result = Runner.run_streamed(agent, QUESTION)
    kinds = [event.type async for event in result.stream_events()]
    assert result.final_output == SUNNY and "raw_response_event" in kinds


@feature("chat, output by a schema")
async def chat_schema() -> None:
    await schema(chat)


@feature("chat, agent with a tool")
async def chat_tool() -> None:
    await tool(chat)


@feature("chat, agent with a tool, streamed")
async def chat_streamed() -> None:
    await streamed(chat)


@feature("responses, output by a schema")
async def responses_schema() -> None:
    await schema(responses)


@feature("responses, agent with a tool")
async def responses_tool() -> None:
    await tool(responses)


@feature("responses, agent with a tool, streamed")
async def responses_streamed() -> None:
    await streamed(responses)


@feature("handoff to another agent")
async def handoff() -> None:
    other = Agent("other", model=chat(SCRIPTED, "scripted"), instructions="HANDED OVER")
    first = Agent("first", model=chat(SCRIPTED, "scripted"), handoffs=[other])
    result = await Runner.run(first, QUESTION)
    assert result.last_agent.name == "other" and result.final_output


@feature("errors", raises="no model 'nope'")
async def errors() -> None:
    await Runner.run(Agent("a", model=responses(REAL, "nope")), QUESTION)


run()
