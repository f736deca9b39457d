"""pydantic-ai."""

from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from person import CLARA, Person
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

COLD = {"temperature": 0.0}


def chat(url: str, name: str) -> OpenAIChatModel:
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


def responses(url: str, name: str) -> OpenAIResponsesModel:
    return OpenAIResponsesModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


def messages(url: str, name: str) -> AnthropicModel:
    return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key="none"))


async def schema(make, output) -> None:
    found = await Agent(make(REAL, "bundled"), output_type=output, model_settings=COLD).run(QUESTION)
    assert found.output == CLARA, found.output


async def tool(make) -> None:
    asked = []
    agent = Agent(make(SCRIPTED, "scripted"))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        asked.append(city)
        return "sunny"

    assert (await agent.run(QUESTION)).output == SUNNY and asked == ["Oslo"]
    async with agent.run_stream(QUESTION) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == SUNNY


@feature("chat, output by a tool")
async def chat_tool_output() -> None:
    await schema(chat, Person)


@feature("chat, output by a schema")
async def chat_schema() -> None:
    await schema(chat, NativeOutput(Person))


@feature("chat, agent with a tool, streamed")
async def chat_tool() -> None:
    await tool(chat)


@feature("responses, output by a schema")
async def responses_schema() -> None:
    await schema(responses, NativeOutput(Person))


@feature("responses, agent with a tool, streamed")
async def responses_tool() -> None:
    await tool(responses)


@feature("messages, output by a tool")
async def messages_tool_output() -> None:
    await schema(messages, Person)


@feature("messages, agent with a tool, streamed")
async def messages_tool() -> None:
    await tool(messages)


@feature("plain")
async def plain() -> None:
    assert (await Agent(chat(SCRIPTED, "scripted")).run("Say it.")).output == PLAIN


@feature("errors", raises="no model 'nope'")
async def errors() -> None:
    await Agent(chat(REAL, "nope")).run(QUESTION)


run()
