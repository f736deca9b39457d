"""Names, places and organisations by a model: a small spaCy pipeline, trained here on made-up sentences."""

import asyncio
import random

import pytest

pytest.importorskip("presidio_analyzer", reason="pip install presidio-analyzer")

import spacy
from sluicegate_presidio_screen import PresidioScreen, PresidioSettings
from spacy.training import Example

from sluicegate.plugins import Caller, read_settings
from sluicegate.plugins.testing import make_request

PEOPLE = ["Wilhelmina Oduya", "Tomas Brandt", "Ines Duarte", "Kofi Mensah", "Rania Haddad", "Pavel Novak", "Greta Lund"]
FIRMS = [
    "Halden Marine Ltd",
    "Orbis Textiles",
    "Quarry Lane Partners",
    "Nordwind GmbH",
    "Lumen Foods Inc",
    "Vasko Bank",
]
PLACES = ["12 Harbour Street", "48 Mill Road", "7 Station Avenue", "305 Castle Lane", "91 Chapel Street"]
SENTENCES = [
    "Please ask {PERSON} about it.",
    "{PERSON} works for {ORG} now.",
    "Send it to {PERSON}, {GPE}, today.",
    "I met {PERSON} at {ORG} on Monday.",
    "The office of {ORG} is at {GPE}.",
    "Tell {ORG} that {PERSON} has moved to {GPE}.",
]
HARMLESS = ["How high is the tide today?", "Please ask about the price.", "The office is closed on Monday."]


def filled(sentence, drawn):
    """Return the text, and (start, end, label) of what was filled in."""
    text, spans = "", []
    for part in sentence.replace("}", "{").split("{"):
        values = {"PERSON": PEOPLE, "ORG": FIRMS, "GPE": PLACES}.get(part)
        value = drawn.choice(values) if values else part
        if values:
            spans.append((len(text), len(text) + len(value), part))
        text += value
    return text, spans


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """Make a folder with a pipeline whose recogniser was trained."""
    drawn = random.Random(4)
    nlp = spacy.blank("en")
    recogniser = nlp.add_pipe("ner")
    for label in ("PERSON", "ORG", "GPE"):
        recogniser.add_label(label)
    rows = [filled(drawn.choice(SENTENCES), drawn) for _ in range(120)] + [(text, []) for text in HARMLESS * 4]
    examples = [Example.from_dict(nlp.make_doc(text), {"entities": spans}) for text, spans in rows]
    spacy.util.fix_random_seed(4)
    optimiser = nlp.initialize(lambda: examples)
    for _ in range(12):
        drawn.shuffle(examples)
        for start in range(0, len(examples), 16):
            nlp.update(examples[start : start + 16], sgd=optimiser)
    folder = tmp_path_factory.mktemp("spacy") / "names"
    nlp.to_disk(folder)
    return folder


def screened(pipeline, text, **settings):
    table = {"nlp_model": str(pipeline), "entities": ["PERSON", "ORGANIZATION", "LOCATION"], **settings}

    async def run():
        rail = PresidioScreen(read_settings(PresidioSettings, table, "stages.screen.presidio"))
        await rail.start()
        try:
            return await rail.screen(make_request(text), Caller())
        finally:
            await rail.close()

    return asyncio.run(run())


def test_names_organisations_and_addresses_are_taken_out(pipeline):
    result = screened(pipeline, "Tell Orbis Textiles that Ines Duarte has moved to 48 Mill Road.")
    assert result.messages[0].content == "Tell <ORGANIZATION> that <PERSON> has moved to <LOCATION>."


def test_only_the_entities_that_were_asked_for_are_taken_out(pipeline):
    result = screened(pipeline, "Kofi Mensah works for Vasko Bank now.", entities=["PERSON"])
    assert result.messages[0].content == "<PERSON> works for Vasko Bank now."


@pytest.mark.parametrize("text", HARMLESS)
def test_texts_without_names_pass(pipeline, text):
    assert screened(pipeline, text).action == "pass"
