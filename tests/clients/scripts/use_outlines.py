"""outlines, over the interfaces of OpenAI and vLLM."""

from typing import Literal

import openai
import outlines
from features import PLAIN, QUESTION, REAL, SCRIPTED, feature, run
from outlines.types import CFG, Regex
from person import CLARA, Person

plain = openai.OpenAI(base_url=f"{REAL}/v1", api_key="none", max_retries=0)
COLD = {"temperature": 0, "max_tokens": 200}


@feature("openai, plain")
def openai_plain() -> None:
    client = openai.OpenAI(base_url=f"{SCRIPTED}/v1", api_key="none", max_retries=0)
    assert outlines.from_openai(client, "scripted")("Say it.") == PLAIN


@feature("openai, schema")
def openai_schema() -> None:
    assert Person.model_validate_json(outlines.from_openai(plain, "bundled")(QUESTION, Person, **COLD)) == CLARA


@feature("vLLM, schema")
def vllm_schema() -> None:
    assert Person.model_validate_json(outlines.from_vllm(plain, "bundled")(QUESTION, Person, **COLD)) == CLARA


@feature("vLLM, streamed")
def vllm_streamed() -> None:
    pieces = list(outlines.from_vllm(plain, "bundled").stream(QUESTION, Person, **COLD))
    assert len(pieces) > 1 and Person.model_validate_json("".join(pieces)) == CLARA


@feature("vLLM, choice")
def choice() -> None:
    assert outlines.from_vllm(plain, "bundled")(QUESTION, Literal["Aarhus", "Oslo"], **COLD) in ("Aarhus", "Oslo")


@feature("vLLM, regex")
def regex() -> None:
    assert len(outlines.from_vllm(plain, "bundled")(QUESTION, Regex(r"[A-Z]{5}"), **COLD)) == 5


@feature("vLLM, grammar")
def grammar() -> None:
    made = outlines.from_vllm(plain, "bundled")(QUESTION, CFG('start: "yes" | "no"'), **COLD)
    assert made in ("yes", "no")


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    outlines.from_openai(plain, "nope")("x")


run()
