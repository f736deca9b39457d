"""langchain-openai."""

import openai
from features import EMBEDDER, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from person import CLARA, Person

PLAIN = {"api_key": "none", "max_retries": 0}
real = ChatOpenAI(base_url=f"{REAL}/v1", model="bundled", temperature=0, **PLAIN)
scripted = ChatOpenAI(base_url=f"{SCRIPTED}/v1", model="scripted", **PLAIN)


@tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("schema")
def schema() -> None:
    assert real.with_structured_output(Person, method="json_schema").invoke(QUESTION) == CLARA


@feature("schema by a function")
def function() -> None:
    assert real.with_structured_output(Person, method="function_calling").invoke(QUESTION) == CLARA


@feature("tools")
def tools() -> None:
    bound = scripted.bind_tools([get_weather])
    first = bound.invoke(QUESTION)
    [call] = first.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    assert bound.invoke([HumanMessage(QUESTION), first, result]).content == SUNNY


@feature("tools, streamed")
def streamed() -> None:
    whole = None
    for chunk in scripted.bind_tools([get_weather]).stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    assert whole.tool_calls[0]["args"] == {"city": "Oslo"}


@feature("responses API")
def responses() -> None:
    model = ChatOpenAI(base_url=f"{REAL}/v1", model="bundled", temperature=0, use_responses_api=True, **PLAIN)
    assert model.with_structured_output(Person, method="json_schema").invoke(QUESTION) == CLARA


@feature("responses API, tools")
def responses_tools() -> None:
    bound = ChatOpenAI(base_url=f"{SCRIPTED}/v1", model="scripted", use_responses_api=True, **PLAIN).bind_tools(
        [get_weather]
    )
    first = bound.invoke(QUESTION)
    [call] = first.tool_calls
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    assert bound.invoke([HumanMessage(QUESTION), first, result]).text == SUNNY


@feature("embeddings")
def embeddings() -> None:
    made = OpenAIEmbeddings(base_url=f"{REAL}/v1", model=EMBEDDER, check_embedding_ctx_length=False, **PLAIN)
    assert len(made.embed_query("one")) == 32


@feature("errors")
def errors() -> None:
    try:
        ChatOpenAI(base_url=f"{REAL}/v1", model="nope", **PLAIN).invoke(QUESTION)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
    else:
        raise AssertionError("an unknown model was answered")


run()
