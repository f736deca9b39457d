"""instructor: tools mode (its default), JSON schema mode, partial streams, errors."""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    city: str


SAID = [{"role": "user", "content": "Extract the fields.\n\nMy name is Clara Winther and I live in Aarhus."}]
CLARA = Person(name="Clara Winther", city="Aarhus")
plain = OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0)

for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(plain, mode=mode)
    found = client.chat.completions.create(
        model="bundled", messages=SAID, response_model=Person, temperature=0, max_retries=0
    )
    assert found.model_dump() == CLARA.model_dump(), (mode, found)

client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
parts = list(
    client.chat.completions.create_partial(model="bundled", messages=SAID, response_model=Person, temperature=0)
)
assert len(parts) > 1 and parts[-1].model_dump() == CLARA.model_dump()

try:
    client.chat.completions.create(model="nope", messages=SAID, response_model=Person, max_retries=0)
except Exception as error:
    assert "no model 'nope'" in str(error), error
else:
    raise AssertionError("an unknown model was answered")
print("ok")
