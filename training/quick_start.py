"""Thirty prompts as the ecosystem's quick-start guides have them, with the answers that count as right.

`python -m training.quick_start --url http://127.0.0.1:8000` asks a running gateway and prints every answer. Training
sees none of these texts.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

_FILE = Path(__file__).resolve().parent / "data" / "quick_start.jsonl"


@dataclass(frozen=True, slots=True)
class QuickStart:
    """`schema` None: the messages name the fields, and the request asks for a JSON object. `accepted`: any of these."""

    name: str
    messages: list[dict[str, str]]
    schema: dict[str, Any] | None
    accepted: list[Any]

    def request(self, model: str) -> dict[str, Any]:
        """Return the body for `/v1/chat/completions`."""
        wanted: dict[str, Any] = {"type": "json_object"}
        if self.schema is not None:
            wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": self.schema}}
        body = {"messages": self.messages, "response_format": wanted, "temperature": 0, "max_tokens": 160}
        return {"model": model, **body}

    def is_right(self, answer: str) -> bool:
        """Return whether the answer is JSON and equals one of those accepted."""
        try:
            found = json.loads(answer)
        except ValueError:
            return False
        return any(_is_same(found, wanted) for wanted in self.accepted)


def _is_same(found: Any, wanted: Any) -> bool:
    """Return whether both are equal as JSON: true is not 1."""
    return bool(found == wanted) and json.dumps(found, sort_keys=True).count("true") == json.dumps(
        wanted, sort_keys=True
    ).count("true")


def quick_starts() -> list[QuickStart]:
    """Return the thirty, in the order of the file."""
    return [QuickStart(**json.loads(line)) for line in _FILE.read_text(encoding="utf-8").splitlines()]


def asked(url: str, case: QuickStart, model: str = "bundled") -> str:
    """Ask, and return the answer's text. Raises `httpx.HTTPStatusError` when the gateway refuses."""
    response = httpx.post(f"{url}/v1/chat/completions", json=case.request(model), timeout=120)
    response.raise_for_status()
    return str(response.json()["choices"][0]["message"]["content"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="bundled")
    options = parser.parse_args(arguments)
    right = 0
    for case in quick_starts():
        answer = asked(options.url, case, options.model)
        is_right = case.is_right(answer)
        right += is_right
        print(
            f"{'right' if is_right else 'WRONG'}  {case.name}: {case.messages[-1]['content'][:90]!r}\n       {answer}"
        )
    print(f"{right} of {len(quick_starts())} right")


if __name__ == "__main__":
    main()
