"""mirascope."""

from features import PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from mirascope import llm
from person import CLARA, Person

llm.register_provider("openai:completions", scope="bundled", base_url=f"{REAL}/v1", api_key="none")
llm.register_provider("openai:completions", scope="scripted", base_url=f"{SCRIPTED}/v1", api_key="none")
llm.register_provider("openai:completions", scope="nope", base_url=f"{REAL}/v1", api_key="none")


@llm.tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    @llm.call("scripted/scripted")
    def ask() -> str:
        return "Say it."

    assert ask().text() == PLAIN


@feature("streamed")
def streamed() -> None:
    @llm.call("scripted/scripted")
    def ask() -> str:
        return "Say it."

    assert "".join(ask.stream().text_stream()).strip() == PLAIN


@feature("schema")
def schema() -> None:
    @llm.call("bundled/bundled", format=llm.format(Person, mode="strict"), temperature=0)
    def ask() -> str:
        return QUESTION

    assert ask().parse() == CLARA


@feature("schema by a function")
def function() -> None:
    @llm.call("bundled/bundled", format=llm.format(Person, mode="tool"), temperature=0)
    def ask() -> str:
        return QUESTION

    assert ask().parse() == CLARA


@feature("tools")
def tools() -> None:
    @llm.call("scripted/scripted", tools=[get_weather])
    def ask() -> str:
        return QUESTION

    first = ask()
    assert first.resume(first.execute_tools()).text() == SUNNY


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    @llm.call("nope/nope")
    def ask() -> str:
        return "x"

    ask()


run()
