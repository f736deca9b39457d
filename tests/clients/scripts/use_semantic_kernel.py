"""semantic-kernel."""

from features import EMBEDDER, PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from openai import AsyncOpenAI
from person import CLARA, Person
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
    OpenAITextEmbedding,
)
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


def client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat(url: str, model: str) -> OpenAIChatCompletion:
    return OpenAIChatCompletion(ai_model_id=model, async_client=client(url))


def history(text: str) -> ChatHistory:
    made = ChatHistory()
    made.add_user_message(text)
    return made


class Weather:
    @kernel_function(name="get_weather", description="The weather in a city.")
    def get_weather(self, city: str) -> str:
        return f"sunny in {city}"


@feature("plain")
async def plain() -> None:
    settings = OpenAIChatPromptExecutionSettings()
    assert str(await chat(SCRIPTED, "scripted").get_chat_message_content(history("x"), settings)) == PLAIN


@feature("streamed")
async def streamed() -> None:
    settings = OpenAIChatPromptExecutionSettings()
    parts = chat(SCRIPTED, "scripted").get_streaming_chat_message_content(history("x"), settings)
    assert "".join([str(part) async for part in parts]) == PLAIN


@feature("schema")
async def schema() -> None:
    settings = OpenAIChatPromptExecutionSettings(response_format=Person, temperature=0)
    found = await chat(REAL, "bundled").get_chat_message_content(history(QUESTION), settings)
    assert Person.model_validate_json(str(found)) == CLARA


@feature("agent with a tool")
async def agent() -> None:
    made = ChatCompletionAgent(
        service=chat(SCRIPTED, "scripted"), name="a", instructions="", plugins=[Weather()], kernel=Kernel()
    )
    assert str(await made.get_response(QUESTION)) == SUNNY


@feature("embeddings")
async def embeddings() -> None:
    made = OpenAITextEmbedding(ai_model_id=EMBEDDER, async_client=client(REAL))
    assert (await made.generate_embeddings(["one"])).shape == (1, 32)


@feature("errors", raises="no model 'nope'")
async def errors() -> None:
    await chat(REAL, "nope").get_chat_message_content(history("x"), OpenAIChatPromptExecutionSettings())


run()
