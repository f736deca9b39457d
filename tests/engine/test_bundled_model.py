"""The model in the repository really extracts: a few clear documents, greedy and without any grammar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sluicegate.engine.text.prompt import render_chat

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"
STRING, NUMBER = {"type": "string"}, {"type": "number"}
DATE = {"type": "string", "format": "date"}


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(BUNDLED).eval(), AutoTokenizer.from_pretrained(BUNDLED)


def extracted(loaded: tuple[Any, Any], document: str, **properties: Any) -> Any:
    model, tokenizer = loaded
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    prompt = render_chat(tokenizer, [{"role": "user", "content": document}], schema=schema)
    ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
    with torch.no_grad():
        output = model.generate(**ids, max_new_tokens=120, do_sample=False)[0, ids.input_ids.size(1) :]
    assert output[-1] == tokenizer.eos_token_id
    return json.loads(tokenizer.decode(output, skip_special_tokens=True))


def test_fields_of_a_key_value_sheet_are_extracted(loaded: tuple[Any, Any]) -> None:
    """Names the model never saw, field names that differ from the labels, and an order that is not the document's."""
    document = "Passenger: Giulia Romano\nFlight: LH-1234\nFrom: Milan\nTo: Frankfurt\nDate: 3 November 2025\nSeat: 14C"
    answer = extracted(
        loaded, document, destination=STRING, seat_number=STRING, departure_date=DATE, passenger_name=STRING
    )
    assert answer == {
        "destination": "Frankfurt",
        "seat_number": "14C",
        "departure_date": "2025-11-03",
        "passenger_name": "Giulia Romano",
    }


def test_fields_of_a_sentence_are_extracted_with_their_types(loaded: tuple[Any, Any]) -> None:
    document = "This is invoice INV-2031 from Porter Logistics. The total is EUR 1,234.50. Please pay by 2 June 2024."
    answer = extracted(loaded, document, invoice_number=STRING, total=NUMBER, due_date=DATE)
    assert answer == {"invoice_number": "INV-2031", "total": 1234.5, "due_date": "2024-06-02"}


def test_the_folder_is_small_and_says_when_an_answer_ends(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    assert sum(file.stat().st_size for file in BUNDLED.iterdir() if file.is_file()) < 25_000_000
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids("<|end|>")
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.max_position_embeddings == tokenizer.model_max_length == 1024


def test_any_text_survives_the_tokenizer(loaded: tuple[Any, Any]) -> None:
    _, tokenizer = loaded
    for text in ("Zoë Ñandú 東京 🚲", '{"a":["b","c"],"d":{"e":1.50}}', "tab\tnew\nline  two blanks", "\u0000\u200b"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
