"""The type that structured answers are asked for."""

from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    city: str


CLARA = Person(name="Clara Winther", city="Aarhus")
