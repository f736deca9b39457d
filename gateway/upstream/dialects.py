"""How servers that speak OpenAI's `/chat/completions` differ, as data: constraints, health and metrics. Which options
of sampling they know is in the table of fields (`gateway/fields/sampling.py`).

Not covered: what a version older or newer than the recorded ones calls these things. A server that ignores a constraint
is caught all the same: its answers are judged here under the request's own grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sluicegate.plugins import Constraint, UnsupportedGrammar

Dialect = Literal["openai", "vllm", "sglang", "tgi", "tensorrt-llm", "llama.cpp"]
Written = Callable[[Constraint], dict[str, Any]]
"""Fields of the body that ask for a constraint."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Of a Prometheus page: the first of each that is there counts. `usage`: share of the KV cache that is taken."""

    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerDialect:
    """`health` and `metrics` are paths behind the address without `/v1`; "" = it has none."""

    constraints: Mapping[str, Written]
    prompting: bool = False
    """It takes `chat_template_kwargs`, `add_generation_prompt`, `continue_final_message` and thoughts on request."""
    health: str = "/health"
    metrics: str = "/metrics"
    names: MetricNames = field(default_factory=MetricNames)


# --- how a constraint is written --------------------------------------------------------------------------------


def _format(constraint: Constraint) -> dict[str, Any]:
    schema = {"name": constraint.name or "answer", "schema": constraint.value, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _any_object(constraint: Constraint) -> dict[str, Any]:
    return {"response_format": {"type": "json_object"}}


def _typed(kind: str, key: str, value: Callable[[Constraint], Any] = lambda constraint: constraint.value) -> Written:
    """Return a writer of `response_format` with `type` and one more field."""
    return lambda constraint: {"response_format": {"type": kind, key: value(constraint)}}


def _at_the_top(key: str, value: Callable[[Constraint], Any] = lambda constraint: constraint.value) -> Written:
    return lambda constraint: {key: value(constraint)}


def _structured(key: str, value: Callable[[Constraint], Any] = lambda constraint: constraint.value) -> Written:
    return lambda constraint: {"structured_outputs": {key: value(constraint)}}


def _vllm_json(constraint: Constraint) -> dict[str, Any]:
    options = _vllm_options(constraint)
    if not options:
        return (_any_object if constraint.kind == "json_object" else _format)(constraint)
    kind = {"json_object": True} if constraint.kind == "json_object" else {"json": constraint.value}
    return {"structured_outputs": {**kind, **options}}


def _vllm_options(constraint: Constraint) -> dict[str, Any]:
    """Return the options of JSON as vLLM spells them. Other options, and all of them for servers that know none, are
    enforced by checking the answer with our grammar."""
    whitespace = constraint.options.get("whitespace", "flexible")
    found: dict[str, Any] = {"disable_additional_properties": True} if constraint.options.get("close_objects") else {}
    if whitespace == "compact":
        found["disable_any_whitespace"] = True
    elif whitespace != "flexible":
        found["whitespace_pattern"] = whitespace
    return found


def _alternatives(constraint: Constraint) -> str:
    """Return choices as a regular expression that every notation reads alike."""
    return "|".join(f"({''.join(_escaped(letter) for letter in choice)})" for choice in constraint.value)


def _escaped(letter: str) -> str:
    return "\\" + letter if letter in r"\.^$*+?{}[]|()" else letter


def _gbnf_choice(constraint: Constraint) -> str:
    """Return choices as a GBNF grammar."""
    spelled = (choice.replace("\\", "\\\\").replace('"', '\\"') for choice in constraint.value)
    lines = (one.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") for one in spelled)
    return "root ::= " + " | ".join(f'"{line}"' for line in lines)


def _ebnf(constraint: Constraint) -> str:
    """Return the grammar as GBNF, which is also called EBNF and which these servers read. Raises `UnsupportedGrammar`
    for a Lark grammar."""
    from sluicegate.grammar.lark.gbnf import is_gbnf  # settings are read by commands that need no grammar

    text = str(constraint.value)
    if not is_gbnf(text):
        raise UnsupportedGrammar(
            "the server behind this model takes GBNF (`root ::= ...`), not Lark; write the grammar so",
            param="structured_outputs",
        )
    return text


# --- the servers ------------------------------------------------------------------------------------------------

_JSON = {"json_schema": _format, "json_object": _any_object}

SERVER_DIALECTS: Mapping[str, ServerDialect] = {
    "openai": ServerDialect(_JSON, health="/v1/models", metrics=""),
    "vllm": ServerDialect(
        {
            "json_schema": _vllm_json,
            "json_object": _vllm_json,
            "regex": _structured("regex"),
            "choice": _structured("choice", lambda constraint: list(constraint.value)),
            "lark": _structured("grammar"),
            "structural_tag": _structured("structural_tag"),
        },
        prompting=True,
        names=MetricNames(
            ("vllm:num_requests_running",),
            ("vllm:num_requests_waiting",),
            ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ),
    ),
    "sglang": ServerDialect(
        {
            **_JSON,
            "regex": _at_the_top("regex"),
            "choice": _at_the_top("regex", _alternatives),
            "lark": _at_the_top("ebnf", _ebnf),
        },
        names=MetricNames(
            ("sglang:num_running_reqs", "sglang_num_running_reqs"),
            ("sglang:num_queue_reqs", "sglang_num_queue_reqs"),
            ("sglang:token_usage", "sglang_token_usage"),
        ),
    ),
    "tgi": ServerDialect(
        {
            "json_schema": _typed("json", "value"),
            "json_object": _typed("json", "value", lambda constraint: {"type": "object"}),
            "regex": _typed("regex", "value"),
            "choice": _typed("regex", "value", _alternatives),
        },
        names=MetricNames(("tgi_batch_current_size",), ("tgi_queue_size",)),
    ),
    "tensorrt-llm": ServerDialect(
        {
            "json_schema": _typed("json", "schema"),
            "json_object": _any_object,
            "regex": _typed("regex", "regex"),
            "choice": _typed("regex", "regex", _alternatives),
            "lark": _typed("ebnf", "ebnf", _ebnf),
        },
        metrics="/prometheus/metrics",
        names=MetricNames(
            ("trtllm_num_requests_running",), ("trtllm_num_requests_waiting",), ("trtllm_kv_cache_utilization",)
        ),
    ),
    "llama.cpp": ServerDialect(
        {
            **_JSON,
            "choice": _at_the_top("grammar", _gbnf_choice),
            "lark": _at_the_top("grammar", _ebnf),
        },
        names=MetricNames(
            ("llamacpp:requests_processing",), ("llamacpp:requests_deferred",), ("llamacpp:kv_cache_usage_ratio",)
        ),
    ),
}


def written(constraint: Constraint | None, dialect: str) -> dict[str, Any]:
    """Return the fields that ask a server for `constraint`. Raises `UnsupportedGrammar` for one that it cannot keep."""
    if constraint is None:
        return {}
    known = SERVER_DIALECTS[dialect].constraints
    write = known.get(constraint.kind)
    if write is None:
        taken = "JSON schemas only" if set(known) == set(_JSON) else f"only {', '.join(sorted(known))}"
        raise UnsupportedGrammar(
            f"the server behind this model takes {taken}, not {constraint.kind}", param="structured_outputs"
        )
    return write(constraint)
