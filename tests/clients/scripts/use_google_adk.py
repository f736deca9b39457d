"""google-adk, through its LiteLLM model."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # fetch nothing
from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from person import Person


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


def model(url: str, name: str, **more) -> LiteLlm:
    return LiteLlm(model=f"openai/{name}", api_base=f"{url}/v1", api_key="none", **more)


async def asked(agent: LlmAgent, text: str) -> str:
    runner = InMemoryRunner(agent=agent, app_name="a")
    session = await runner.session_service.create_session(app_name="a", user_id="u")
    said = ""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=content):
        said = "".join(part.text or "" for part in event.content.parts) if event.content else said
    return said


@feature("plain")
async def plain() -> None:
    assert await asked(LlmAgent(name="a", model=model(SCRIPTED, "scripted")), "Say it.") == PLAIN


@feature("agent with a tool")
async def agent() -> None:
    made = LlmAgent(name="a", model=model(SCRIPTED, "scripted"), tools=[get_weather])
    assert await asked(made, QUESTION) == SUNNY


@feature("schema")
async def schema() -> None:
    made = LlmAgent(name="a", model=model(REAL, "bundled", temperature=0), output_schema=Person)
    assert Person.model_validate_json(await asked(made, QUESTION))


run()
