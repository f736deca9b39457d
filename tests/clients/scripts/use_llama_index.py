"""llama-index, with its class for servers like OpenAI's."""

from features import EMBEDDER, PLAIN, QUESTION, REAL, SCRIPTED, SUNNY, feature, run
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from person import CLARA, Person

COMMON = {"api_key": "none", "is_chat_model": True, "is_function_calling_model": True, "max_retries": 0}
real = OpenAILike(api_base=f"{REAL}/v1", model="bundled", temperature=0, **COMMON)
scripted = OpenAILike(api_base=f"{SCRIPTED}/v1", model="scripted", **COMMON)


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@feature("plain")
def plain() -> None:
    assert scripted.chat([ChatMessage("Say it.")]).message.content == PLAIN


@feature("streamed")
def streamed() -> None:
    assert "".join(part.delta or "" for part in scripted.stream_chat([ChatMessage("Say it.")])) == PLAIN


@feature("completions")
def completions() -> None:
    model = OpenAILike(api_base=f"{SCRIPTED}/v1", model="scripted", **{**COMMON, "is_chat_model": False})
    assert model.complete("Say it.").text == PLAIN


@feature("schema by a function")
def function() -> None:
    assert real.as_structured_llm(Person).chat([ChatMessage(QUESTION)]).raw == CLARA


@feature("schema")
def schema() -> None:
    model = OpenAILike(
        api_base=f"{REAL}/v1", model="bundled", temperature=0, should_use_structured_outputs=True, **COMMON
    )
    assert model.structured_predict(Person, _template(), question=QUESTION) == CLARA


def _template():
    from llama_index.core.prompts import PromptTemplate

    return PromptTemplate("{question}")


@feature("tools")
def tools() -> None:
    tool = FunctionTool.from_defaults(get_weather)
    answer = scripted.predict_and_call([tool], QUESTION)
    assert "sunny in Oslo" in str(answer)


@feature("agent with a tool")
async def agent() -> None:
    made = FunctionAgent(tools=[get_weather], llm=scripted)
    assert str(await made.run(QUESTION)) == SUNNY


@feature("embeddings")
def embeddings() -> None:
    made = OpenAILikeEmbedding(model_name=EMBEDDER, api_base=f"{REAL}/v1", api_key="none", max_retries=0)
    assert len(made.get_text_embedding("one")) == 32


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    OpenAILike(api_base=f"{REAL}/v1", model="nope", **COMMON).chat([ChatMessage("x")])


run()
