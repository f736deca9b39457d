"""dspy."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # fetch nothing
import dspy
from features import PLAIN, REAL, SCRIPTED, feature, run
from person import Person

COMMON = {"api_key": "none", "cache": False, "num_retries": 0}
real = dspy.LM("hosted_vllm/bundled", api_base=f"{REAL}/v1", temperature=0, max_tokens=300, **COMMON)
scripted = dspy.LM("openai/scripted", api_base=f"{SCRIPTED}/v1", **COMMON)


class Extract(dspy.Signature):
    """Extract the fields."""

    text: str = dspy.InputField()
    person: Person = dspy.OutputField()


@feature("plain")
def plain() -> None:
    assert scripted("Say it.") == [PLAIN]


@feature("responses")
def responses() -> None:
    lm = dspy.LM("openai/scripted", api_base=f"{SCRIPTED}/v1", model_type="responses", **COMMON)
    assert PLAIN in str(lm("Say it.")[0])


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    dspy.LM("openai/nope", api_base=f"{REAL}/v1", **COMMON)("x")


run()
