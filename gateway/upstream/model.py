"""A served model without weights here: the other server renders the prompt and counts the tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from sluicegate.gateway.upstream.settings import UpstreamModelSettings
from sluicegate.plugins import Constraint

END = "<|end|>"
VOCABULARY = 257
JUDGED_AS = {"property_order": "any", "whitespace": r"[ \t\r\n]{0,200}"}
"""How a text is judged that was not drawn under our masks: any layout that is valid JSON will do."""


@dataclass(slots=True)
class UpstreamModel:
    """A `ServedModel` whose tokens are bytes, so that its grammars judge text of any tokenizer."""

    name: str
    version: str
    context_length: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    tokenizer: Any
    default_temperature: float = 1.0
    defaults: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remote: bool = True
    base: None = None


def upstream_model(name: str, settings: UpstreamModelSettings) -> UpstreamModel:
    named = settings.version or "\0".join((*settings.addresses, settings.model or name))
    version = hashlib.sha256(named.encode()).hexdigest()[:16]
    return UpstreamModel(name, f"upstream-{version}", settings.context_length, VOCABULARY, (256,), byte_tokenizer())


def judged(constraint: Constraint | None) -> Constraint | None:
    """Return the constraint by which an upstream answer is checked."""
    if constraint is None or constraint.kind not in ("json_schema", "json_object"):
        return constraint
    return replace(constraint, options={**JUDGED_AS, **constraint.options})


@cache
def byte_tokenizer() -> Any:
    """Return a tokenizer with one token for each byte."""
    words = {letter: i for i, letter in enumerate(_byte_letters())}
    made = Tokenizer(models.BPE(vocab={**words, END: 256}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    from transformers import PreTrainedTokenizerFast  # a second to import: only those who ask upstreams need it

    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END)


def _byte_letters() -> list[str]:
    """Return the letter that stands for each byte in byte-level tokenizers, in order of the bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
