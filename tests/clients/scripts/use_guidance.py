"""guidance, over OpenAI's interface."""

import guidance
from features import CLARA, PLAIN, QUESTION, REAL, SCHEMA, SCRIPTED, feature, run


def model(url: str, name: str):
    return guidance.models.OpenAI(name, api_key="none", base_url=f"{url}/v1", echo=False)


def asked(lm, question: str):
    with guidance.user():
        lm += question
    return lm


@feature("plain, streamed")
def plain() -> None:
    lm = asked(model(SCRIPTED, "scripted"), "Say it.")
    with guidance.assistant():
        lm += guidance.gen("said", max_tokens=50)
    assert lm["said"] == PLAIN


@feature("schema")
def schema() -> None:
    lm = asked(model(REAL, "bundled"), QUESTION)
    with guidance.assistant():
        lm += guidance.json("found", schema=SCHEMA, temperature=0)
    import json

    assert json.loads(lm["found"]) == CLARA


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    lm = asked(model(REAL, "nope"), "x")
    with guidance.assistant():
        lm += guidance.gen("said", max_tokens=5)


run()
