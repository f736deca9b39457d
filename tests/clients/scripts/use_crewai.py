"""crewai."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OPENAI_API_KEY": "none"}
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from features import PLAIN, QUESTION, REAL, SCRIPTED, feature, run
from person import CLARA, Person

COMMON = {"api_key": "none", "provider": "openai", "max_retries": 0}
scripted = LLM(model="scripted", base_url=f"{SCRIPTED}/v1", **COMMON)
real = LLM(model="bundled", base_url=f"{REAL}/v1", temperature=0, **COMMON)


@tool("get_weather")
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    assert scripted.call("Say it.") == PLAIN


@feature("schema")
def schema() -> None:
    made = LLM(model="bundled", base_url=f"{REAL}/v1", temperature=0, response_format=Person, **COMMON)
    found = made.call(QUESTION)
    assert (found if isinstance(found, Person) else Person.model_validate_json(found)) == CLARA


@feature("crew with a tool")
def crew() -> None:
    agent = Agent(role="r", goal="g", backstory="b", llm=scripted, tools=[get_weather], max_iter=3)
    task = Task(description=QUESTION, expected_output="words", agent=agent)
    assert "sunny" in str(Crew(agents=[agent], tasks=[task]).kickoff())


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    LLM(model="nope", base_url=f"{REAL}/v1", **COMMON).call("x")


run()
