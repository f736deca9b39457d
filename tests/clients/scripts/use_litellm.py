"""litellm as a client."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # fetch nothing
import litellm
from features import EMBEDDER, PLAIN, REAL, RERANKER, SAID, SCRIPTED, SUNNY, WEATHER, feature, run
from person import CLARA, Person

litellm.suppress_debug_info = True
AT_REAL = {"api_base": f"{REAL}/v1", "api_key": "none", "num_retries": 0}
AT_SCRIPTED = {**AT_REAL, "api_base": f"{SCRIPTED}/v1"}
COLD = {"messages": SAID, "response_format": Person, "temperature": 0}


@feature("openai/, schema")
def schema() -> None:
    whole = litellm.completion("openai/bundled", **COLD, **AT_REAL)
    assert Person.model_validate_json(whole.choices[0].message.content) == CLARA


@feature("openai/, schema, streamed")
def streamed() -> None:
    pieces = litellm.completion("openai/bundled", stream=True, **COLD, **AT_REAL)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in pieces)
    assert Person.model_validate_json(text) == CLARA


@feature("openai/, tools")
def tools() -> None:
    first = litellm.completion("openai/scripted", messages=SAID, tools=[WEATHER], **AT_SCRIPTED)
    [call] = first.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    history = [*SAID, first.choices[0].message.model_dump(), result]
    second = litellm.completion("openai/scripted", messages=history, tools=[WEATHER], **AT_SCRIPTED)
    assert second.choices[0].message.content == SUNNY


@feature("anthropic/")
def anthropic() -> None:
    found = litellm.completion("anthropic/scripted", messages=SAID, api_base=SCRIPTED, api_key="none", max_tokens=99)
    assert found.choices[0].message.content == PLAIN


@feature("hosted_vllm/, schema")
def hosted_vllm() -> None:
    whole = litellm.completion("hosted_vllm/bundled", **COLD, **AT_REAL)
    assert Person.model_validate_json(whole.choices[0].message.content) == CLARA


@feature("responses")
def responses() -> None:
    found = litellm.responses(model="openai/scripted", input="Say it.", **AT_SCRIPTED)
    assert found.output[-1].content[0].text == PLAIN


@feature("embeddings")
def embeddings() -> None:
    found = litellm.embedding(f"openai/{EMBEDDER}", input=["one"], **AT_REAL)
    assert len(found.data[0]["embedding"]) == 32


@feature("rerank")
def rerank() -> None:
    found = litellm.rerank(
        f"hosted_vllm/{RERANKER}", query="a cat", documents=["the cat", "a river"], api_base=REAL, api_key="none"
    )
    assert len(found.results) == 2


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    litellm.completion("openai/nope", messages=SAID, **AT_REAL)


run()
