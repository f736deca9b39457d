"""The bundled weights read the letter of the demo: what newcomers see first is right, whatever was trained since."""

from __future__ import annotations

import json
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from sluicegate.engine.text.prompt import render_chat
from sluicegate.gateway.commands.demo import DOCUMENT, SCHEMA
from sluicegate.grammar import Vocabulary, compile_json_schema
from training.decode import greedy

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"


def test_supplier_and_customer_of_the_demo_are_told_apart() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    model = AutoModelForCausalLM.from_pretrained(BUNDLED).eval()
    system = {"role": "system", "content": "Extract the fields from the document."}
    prompt = render_chat(tokenizer, [system, {"role": "user", "content": DOCUMENT}], schema=SCHEMA)
    matcher = compile_json_schema(SCHEMA, Vocabulary.from_tokenizer(tokenizer)).matcher()
    [answer] = greedy(model, tokenizer, [prompt], 160, [matcher])
    found = json.loads(answer)
    assert (found["supplier"], found["customer"]) == ("Tidewater Marine Supply", "Kestrel Boatworks")
    assert (found["invoice_number"], found["total"], found["paid"]) == ("TM-40917", 1284.5, False)
