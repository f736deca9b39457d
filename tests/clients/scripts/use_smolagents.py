"""smolagents."""

from features import PLAIN, QUESTION, REAL, SAID, SCHEMA, SCRIPTED, SUNNY, feature, run
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool


@tool
def get_weather(city: str) -> str:
    """Return the weather in a city.

    Args:
        city: its name
    """
    return f"sunny in {city}"


scripted = OpenAIModel("scripted", api_base=f"{SCRIPTED}/v1", api_key="none")
real = OpenAIModel("bundled", api_base=f"{REAL}/v1", api_key="none", temperature=0)


@feature("plain")
def plain() -> None:
    assert scripted(SAID).content == PLAIN


@feature("streamed")
def streamed() -> None:
    assert "".join(part.content or "" for part in scripted.generate_stream(SAID)) == PLAIN


@feature("schema")
def schema() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    assert "Clara Winther" in real(SAID, response_format=form).content


@feature("code agent, structured, with stop strings", refused="`stop` would cut a constrained answer")
def code() -> None:
    agent = CodeAgent(tools=[], model=real, verbosity_level=0, max_steps=1, use_structured_outputs_internally=True)
    agent.run(QUESTION)


@feature("agent with a tool")
def agent() -> None:
    made = ToolCallingAgent(tools=[get_weather], model=scripted, verbosity_level=0, max_steps=3)
    assert SUNNY in str(made.run(QUESTION))


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    OpenAIModel("nope", api_base=f"{REAL}/v1", api_key="none", client_kwargs={"max_retries": 0})(SAID)


run()
