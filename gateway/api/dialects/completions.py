"""`/v1/completions`: OpenAI's oldest interface, which vLLM's clients still speak."""

from __future__ import annotations

from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.dialects.completions_answer import TextWriter, completions
from sluicegate.gateway.api.dialects.completions_request import FIELDS, parse_completions
from sluicegate.gateway.api.openapi.schemas import TextCompletion

COMPLETIONS = TextDialect(
    name="completions",
    path="/v1/completions",
    fields=FIELDS,
    summary="Complete a prompt as it is",
    answer=TextCompletion,
    example={
        "model": "bundled",
        "prompt": "Answer yes or no: ",
        "structured_outputs": {"regex": "yes|no"},
    },
    read=parse_completions,
    whole=lambda exchange, parsed: completions([exchange], parsed),
    writer=TextWriter,
    joined=completions,
)
