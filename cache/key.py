"""The cache key: a digest of everything an answer depends on. Equal requests have equal keys however they are written.

Not covered: requests that mean the same in other words (see the semantic tier), numerically equal values of different
type (`1` and `1.0` are different JSON here), and Unicode normal forms (a model reads them differently).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from sluicegate.plugins import CacheKey, Caller, Constraint, Message, Request, Sampling

_DEFAULTS = {f.name: getattr(Sampling(), f.name) for f in fields(Sampling)}
_ONLY_DRAWS = frozenset(f.name for f in fields(Sampling) if f.metadata.get("only_draws"))
OUTSIDE: Mapping[str, str] = {
    "id": "names the request",
    "model": "the model that answers is keyed instead, with its version",
    "stream": "how the answer travels",
    "user": "who asks; a tenant's answers are its own already",
    "api_key": "who asks",
    "on_behalf_of": "who asks",
    "priority": "when it runs",
    "deadline_s": "how long it may take; an answer that is not whole is not kept",
    "metadata": "kept with the record, read by nobody who answers",
    "cache": "whether a kept answer will do",
    "reuse": "whether a kept answer will do",
    "explain": "what is said about the answer",
    "confidence": "what is said about the answer",
    "partial": "what is said about the answer",
    "retrieve": "documents that were found became messages, and are keyed by their contents",
    "nbytes": "how it was read",
    "parts": "became messages; the version of the template is keyed",
}
"""Fields of a request that are not part of its key, and why. Every other field is, which a test checks by the type."""
_APART = frozenset({"messages", "constraint", "sampling", "n"})
_KEYED = tuple(f for f in fields(Request) if f.name not in OUTSIDE and f.name not in _APART)


def cache_key(
    request: Request,
    caller: Caller,
    *,
    model: str,
    model_version: str,
    template_version: str = "",
    rails: str = "",
    scope: Mapping[str, Any] | None = None,
) -> CacheKey:
    """Return the key of a request. `rails`: `fingerprint` of the active rails; `scope`: JSON values of all else that
    the answer depends on. Raises `TypeError` where a constraint holds a value that JSON cannot express."""
    asked = {
        "model": [model, model_version],
        "template": template_version,
        "rails": rails,
        "messages": [_message(m) for m in request.messages],
        "constraint": _constraint(request.constraint),
        "sampling": _sampling(request.sampling),
        "n": request.n,
        "scope": {**(scope or {}), **_rest(request)},
    }
    return CacheKey(caller.tenant, model, fingerprint(asked))


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of `canonical(value)`, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def canonical(value: Any) -> bytes:
    """Return canonical UTF-8 JSON: sorted keys, no white space. Raises `TypeError` or `ValueError` for values that JSON
    cannot express (NaN, sets, objects)."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """Return mappings as dicts and tuples as lists, all the way down. Keys must be strings: `json` would merge 1 and
    "1"."""
    if isinstance(value, Mapping):
        return {_name(key, value): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(_plain(item) for item in value)
    if is_dataclass(value):
        return [_plain(getattr(value, f.name)) for f in fields(value)]
    return value


def _rest(request: Request) -> dict[str, Any]:
    """Return the request's other fields by name. Defaults are left out, so that a new field does not change the keys of
    requests that do not use it."""
    found = {}
    for f in _KEYED:
        value = getattr(request, f.name)
        if value != (f.default_factory() if f.default_factory is not MISSING else f.default):
            found[f.name] = _in_order(value)
    return found


def _message(message: Message) -> list[Any]:
    said: list[Any] = [message.role, message.name, message.content]
    if message.tool_calls or message.tool_call_id:
        said += [[[call.id, call.name, call.arguments] for call in message.tool_calls], message.tool_call_id]
    return said


def _constraint(constraint: Constraint | None) -> Any:
    if constraint is None:
        return None
    return [constraint.kind, _in_order(constraint.value), constraint.name, constraint.options]


def _in_order(value: Any) -> Any:
    """Return `value` with objects as lists of pairs, so that the order of properties counts: an answer has them in the
    order of the schema, and a model reads the schema as written."""
    if isinstance(value, Mapping):
        return {"in order": [[_name(key, value), _in_order(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_in_order(item) for item in value]
    if is_dataclass(value):
        return [_in_order(getattr(value, f.name)) for f in fields(value)]
    return value


def _name(key: Any, value: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"cannot key a cache on {value!r}: the key {key!r} is not a string")
    return key


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """Return the non-default options that can change an answer. In greedy decoding the seed and the logit filters
    cannot."""
    inert = _ONLY_DRAWS if sampling.temperature == 0 else frozenset()
    asked = {name: getattr(sampling, name) for name in _DEFAULTS if name not in inert}
    found = {name: value for name, value in asked.items() if value != _DEFAULTS[name]}
    if sampling.logit_bias:
        found["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    return found
