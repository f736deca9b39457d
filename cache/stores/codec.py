"""Entries and index rows as bytes, for stores outside this process. What comes back may be anything: it is checked
before it is read.

Layout of an entry: magic `SG1`; the number of labels, one byte; a mark of 8 bytes for each, so that a sweep can tell by
the head alone what a purge means; 16 bytes of BLAKE2b over the key and all the rest; the payload, JSON, sealed or not.
The digest ties an entry to its key: a reply that belongs to another question, a truncated value or a flipped bit is
refused. It is no signature. Whoever may write to the store can forge an entry, unless entries are sealed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import orjson

from sluicegate.cache.entries import GENERATION, CacheEntry, Counts, IndexRow, same_epochs
from sluicegate.cache.stores.entry_check import MAX_ENTRY_BYTES, CorruptEntry, checked
from sluicegate.plugins import Answer, CacheKey

MAGIC = b"SG1"
ROW_MAGIC = b"SR1"
CHECK_BYTES = 16
MARK_BYTES = 8
MAX_ROW_BYTES = 1 << 18
HEAD_BYTES = len(MAGIC) + 1 + 255 * MARK_BYTES
"""Longest head."""


class EntrySealer(Protocol):
    """Encryption at rest. `bound`: context authenticated with the data; opening with another one raises
    `CorruptEntry`."""

    def seal(self, tenant: str, data: bytes, bound: bytes) -> bytes: ...

    def open(self, tenant: str, data: bytes, bound: bytes) -> bytes: ...


def encode(key: CacheKey, kept: CacheEntry, epochs: Mapping[str, str], sealer: EntrySealer | None = None) -> bytes:
    """Encode an entry. `epochs` are as of the look-up; those of the entry's labels are kept and must be the same when
    it is read."""
    payload = orjson.dumps(
        {
            "a": [_flat(answer) for answer in kept.answers],
            "t": kept.stored_at_s,
            "l": kept.labels,
            "u": [kept.usage.prompt_tokens, kept.usage.completion_tokens],
            **({"q": kept.question} if kept.question else {}),
            "e": {name: epochs.get(name, "0") for name in (*kept.labels, GENERATION)},
        }
    )
    if sealer is not None:
        payload = sealer.seal(key.tenant, payload, _name(key))
    head = MAGIC + bytes((len(kept.labels),)) + b"".join(map(mark, kept.labels))
    return head + _check(key, head, payload) + payload


def decode(key: CacheKey, data: object, sealer: EntrySealer | None = None) -> tuple[CacheEntry, dict[str, str]]:
    """Decode an entry. Raises `CorruptEntry`, whatever `data` is: a store may hold something else than bytes there."""
    if not isinstance(data, bytes) or len(data) > MAX_ENTRY_BYTES:
        raise CorruptEntry(f"no bytes, or too many, at key {key.digest[:12]}")
    head_ends = len(MAGIC) + 1 + MARK_BYTES * (data[len(MAGIC)] if len(data) > len(MAGIC) else 0)
    head, check, payload = data[:head_ends], data[head_ends : head_ends + CHECK_BYTES], data[head_ends + CHECK_BYTES :]
    if head[: len(MAGIC)] != MAGIC or check != _check(key, head, payload):
        raise CorruptEntry(f"{len(data)} bytes that are no entry of key {key.digest[:12]}")
    if sealer is not None:
        payload = sealer.open(key.tenant, payload, _name(key))
    try:
        return checked(orjson.loads(payload))
    except orjson.JSONDecodeError as error:
        raise CorruptEntry(f"an entry of another version at key {key.digest[:12]}") from error


def read(
    key: CacheKey, data: object, epochs: Mapping[str, str], sealer: EntrySealer | None, counts: Counts
) -> CacheEntry | None:
    """Decode `data` as the entry of `key`; None, and a count of the reason, where it is damaged or its epochs are
    outdated."""
    try:
        kept, made_under = decode(key, data, sealer)
    except CorruptEntry:
        counts.add("damaged_total")
        return None
    if same_epochs(kept.labels, made_under, epochs):
        return kept
    counts.add("withdrawn_total")
    return None


def mark(label: str) -> bytes:
    return hashlib.blake2b(label.encode(), digest_size=MARK_BYTES).digest()


def has_label(head: object, marked: bytes) -> bool:
    """Return whether an entry that begins with `head` (the first `HEAD_BYTES`, or all of it) has the label of this
    mark. What is not an entry has every label: a sweep may remove it."""
    if not isinstance(head, bytes) or head[: len(MAGIC)] != MAGIC or len(head) <= len(MAGIC):
        return True
    start = len(MAGIC) + 1
    marks = head[start : start + MARK_BYTES * head[len(MAGIC)]]
    return any(marks[at : at + MARK_BYTES] == marked for at in range(0, len(marks), MARK_BYTES))


def encode_row(tenant: str, scope: str, row: IndexRow, sealer: EntrySealer | None = None) -> bytes:
    """Encode a row, with the vector as float16: a relative error of 0.05 % of each number, 1e-3 of a cosine at most."""
    flat = bytes.fromhex(row.digest) + row.facts.to_bytes(8, "big") + row.vector.astype("<f2").tobytes()
    return ROW_MAGIC + (flat if sealer is None else sealer.seal(tenant, flat, scope.encode()))


def decode_row(tenant: str, scope: str, data: object, sealer: EntrySealer | None = None) -> IndexRow:
    """Decode a row. Raises `CorruptEntry`."""
    if not isinstance(data, bytes) or len(data) > MAX_ROW_BYTES:
        raise CorruptEntry("no bytes, or too many, for a row of the semantic index")
    if data[: len(ROW_MAGIC)] != ROW_MAGIC:
        raise CorruptEntry("bytes that are no row of the semantic index")
    flat = data[len(ROW_MAGIC) :]
    if sealer is not None:
        flat = sealer.open(tenant, flat, scope.encode())
    if len(flat) < 42 or len(flat) % 2:
        raise CorruptEntry("a row of the semantic index was cut short")
    vector = np.frombuffer(flat, "<f2", offset=40).astype(np.float32)
    if not 0.9 < float(vector @ vector) < 1.1:  # false for NaN too
        raise CorruptEntry("a row of the semantic index holds no unit vector")
    return IndexRow(flat[:32].hex(), int.from_bytes(flat[32:40], "big"), vector)


def _name(key: CacheKey) -> bytes:
    return b"".join(
        len(part).to_bytes(4, "big") + part for part in map(str.encode, (key.tenant, key.model, key.digest))
    )


def _check(key: CacheKey, head: bytes, payload: bytes) -> bytes:
    bound = hashlib.blake2b(_name(key), digest_size=CHECK_BYTES)
    bound.update(head)
    bound.update(payload)
    return bound.digest()


def _flat(answer: Answer) -> list[Any]:
    logprobs = [
        [p.token_id, p.token, p.data.hex(), p.logprob, [[t, s, d.hex(), v] for t, s, d, v in p.top]]
        for p in answer.logprobs
    ]
    flat = [answer.index, answer.text, answer.finish_reason, logprobs]
    calls = [[call.id, call.name, call.arguments] for call in answer.tool_calls]
    rest = [answer.reasoning, calls, answer.closed, answer.stopped_by]
    return [*flat, *rest] if any(rest) else flat
