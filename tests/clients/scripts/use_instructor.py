"""instructor, in its modes."""

import anthropic
import instructor
from features import REAL, SAID, feature, run
from openai import OpenAI
from person import CLARA, Person

plain = OpenAI(base_url=f"{REAL}/v1", api_key="none", max_retries=0)
ASKED = {"model": "bundled", "max_retries": 0}


def mode(name: str) -> None:
    client = instructor.from_openai(plain, mode=getattr(instructor.Mode, name))
    found = client.chat.completions.create(messages=SAID, response_model=Person, temperature=0, **ASKED)
    assert found.model_dump() == CLARA.model_dump(), found


@feature("TOOLS")
def tools() -> None:
    mode("TOOLS")


@feature("TOOLS_STRICT")
def tools_strict() -> None:
    mode("TOOLS_STRICT")


@feature("JSON")
def json() -> None:
    mode("JSON")


@feature("JSON_SCHEMA")
def json_schema() -> None:
    mode("JSON_SCHEMA")


@feature("MD_JSON")
def md_json() -> None:
    mode("MD_JSON")


@feature("RESPONSES_TOOLS")
def responses_tools() -> None:
    mode("RESPONSES_TOOLS")


@feature("ANTHROPIC_TOOLS")
def anthropic_tools() -> None:
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=REAL, api_key="none", max_retries=0))
    found = client.messages.create(messages=SAID, response_model=Person, max_tokens=200, **ASKED)
    assert found.model_dump() == CLARA.model_dump(), found


@feature("partial streams")
def partial() -> None:
    client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
    parts = list(client.chat.completions.create_partial(messages=SAID, response_model=Person, temperature=0, **ASKED))
    assert len(parts) > 1 and parts[-1].model_dump() == CLARA.model_dump()


@feature("lists, streamed")
def iterable() -> None:
    client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
    found = list(client.chat.completions.create_iterable(messages=SAID, response_model=Person, temperature=0, **ASKED))
    assert all(isinstance(one, Person) for one in found)


@feature("errors", raises="no model 'nope'")
def errors() -> None:
    client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
    client.chat.completions.create(model="nope", messages=SAID, response_model=Person, max_retries=0)


run()
