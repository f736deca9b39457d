"""pydantic-ai: an agent with a tool, output by tool and by schema, streams, errors."""

import asyncio
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Person(BaseModel):
    name: str
    city: str


SAID = "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."
CLARA = Person(name="Clara Winther", city="Aarhus")


def model(url: str, name: str) -> OpenAIChatModel:
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


async def main() -> None:
    real, scripted = model(sys.argv[1], "bundled"), model(sys.argv[2], "scripted")
    cold = {"temperature": 0.0}
    for output in (Person, NativeOutput(Person)):
        found = await Agent(real, output_type=output, model_settings=cold).run(SAID)
        assert found.output == CLARA, found.output

    asked = []
    agent = Agent(scripted)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        asked.append(city)
        return "sunny"

    assert (await agent.run(SAID)).output == "It is sunny in Oslo."
    assert asked == ["Oslo"]
    async with agent.run_stream(SAID) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "It is sunny in Oslo."

    try:
        await Agent(model(sys.argv[1], "nope")).run(SAID)
    except ModelHTTPError as error:
        assert error.status_code == 404
    else:
        raise AssertionError("an unknown model was answered")


asyncio.run(main())
print("ok")
