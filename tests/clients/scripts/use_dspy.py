"""dspy."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # fetch nothing
import dspy
from features import EMBEDDER, PLAIN, REAL, SCRIPTED, feature, run

COMMON = {"api_key": "none", "cache": False, "num_retries": 0}
scripted = dspy.LM("openai/scripted", api_base=f"{SCRIPTED}/v1", **COMMON)


@feature("plain")
def plain() -> None:
    assert scripted("Say it.") == [PLAIN]


@feature("responses")
def responses() -> None:
    lm = dspy.LM("openai/scripted", api_base=f"{SCRIPTED}/v1", model_type="responses", **COMMON)
    assert PLAIN in str(lm("Say it.")[0])


@feature("embeddings")
def embeddings() -> None:
    made = dspy.Embedder(f"hosted_vllm/{EMBEDDER}", api_base=f"{REAL}/v1", api_key="none", caching=False)
    assert made(["one", "two"]).shape == (2, 32)


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    dspy.LM("openai/nope", api_base=f"{REAL}/v1", **COMMON)("x")


run()
