"""magentic."""

from features import PLAIN, QUESTION, REAL, SCRIPTED, feature, run
from magentic import FunctionCall, OpenaiChatModel, StreamedStr, prompt
from person import CLARA, Person

real = OpenaiChatModel("bundled", base_url=f"{REAL}/v1", api_key="none", temperature=0)
scripted = OpenaiChatModel("scripted", base_url=f"{SCRIPTED}/v1", api_key="none")


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    @prompt("Say it.", model=scripted)
    def ask() -> str: ...

    assert ask() == PLAIN


@feature("streamed")
def streamed() -> None:
    @prompt("Say it.", model=scripted)
    def ask() -> StreamedStr: ...

    assert "".join(ask()) == PLAIN


@feature("schema by a function")
def schema() -> None:
    @prompt(QUESTION, model=real)
    def ask() -> Person: ...

    assert ask() == CLARA


@feature("tools")
def tools() -> None:
    @prompt(QUESTION, functions=[get_weather], model=scripted)
    def ask() -> FunctionCall[str]: ...

    assert ask()() == "sunny in Oslo"


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    @prompt("x", model=OpenaiChatModel("nope", base_url=f"{REAL}/v1", api_key="none"))
    def ask() -> str: ...

    ask()


run()
