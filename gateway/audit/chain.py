"""The form of an audit log: lines of JSON whose hashes make a chain, written and checked.

    {"action":"keys.revoke","at":"2026-11-23T02:00:00.123Z","by":"root",...,"prev":"<hash of the line before>","seq":7,
    "hash":"<its own>"}

`hash` is SHA-256, or HMAC-SHA-256 under a secret, of the line as it stands without its last field. Changing, dropping
or moving a line breaks every hash from there on.

Not covered: lines cut off at the end, and, without a secret, a chain that is computed anew as a whole: whoever can
write the file can do both. An `Anchor` that was noted elsewhere shows either; every line's is in the gateway's log.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

START = "0" * 64
MENDED = "audit.mend"
"""Action of the line after one that a crash cut short. It states the length and digest of the cut line, so that only
that one is accepted."""
_SEAL = b',"hash":"'
_SEAL_BYTES = len(_SEAL) + 64 + len(b'"}')


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a chain stands: the number of a line, and its hash."""

    seq: int = 0
    digest: str = START

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What checking found. `entries`: lines that hold. `first`: before the first one. `last`: after the last one."""

    entries: int
    first: Anchor
    last: Anchor
    broken: BrokenLink | None = None


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """The first line that does not hold (counted from 1 over all files), and why."""

    line: int
    reason: str


def line_of(entry: Mapping[str, Any], before: Anchor, secret: bytes) -> tuple[bytes, Anchor]:
    """Return the line that continues a chain, its newline included, and where the chain stands then."""
    fields = {**entry, "seq": before.seq + 1, "prev": before.digest}
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")
    digest = _digest(body, secret)
    return body[:-1] + _SEAL + digest.encode() + b'"}\n', Anchor(before.seq + 1, digest)


def anchor_of(line: bytes) -> Anchor | None:
    """Return where the chain stands after a line that claims to be one, unchecked; None for what is none."""
    found = _parsed(line)
    return None if found is None else Anchor(found["seq"], found["hash"])


def torn(part: bytes) -> dict[str, Any]:
    """Return the facts of a `MENDED` entry for a line cut short."""
    return {"action": MENDED, "bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}


def audited(lines: Iterable[bytes], secret: bytes, expected: Anchor | None = None) -> AuditReport:
    """Check lines in their order, over several files too. `expected`: an anchor that must be among them."""
    return _ChainCheck(secret, expected).run(lines)


class _ChainCheck:
    def __init__(self, secret: bytes, expected: Anchor | None) -> None:
        self._secret = secret
        self._expected = expected
        self._first: Anchor | None = None
        self._at = Anchor()
        self._entries = 0

    def run(self, lines: Iterable[bytes]) -> AuditReport:
        number, parts = 0, list[bytes]()
        for number, line in enumerate(lines, 1):
            if _parsed(line) is None:  # a crash may have cut it short: the line after it has to say so
                parts.append(line.rstrip(b"\n"))
                continue
            if reason := self._unexplained_gap(line, parts) or self._wrong(line):
                return self._found(BrokenLink(number - len(parts), reason))
            parts.clear()
        if parts:
            reason = "it is no whole line; where a crash cut it short, the next line written will say so"
            return self._found(BrokenLink(number - len(parts) + 1, reason))
        return self._found(self._missing(number))

    def _found(self, broken: BrokenLink | None) -> AuditReport:
        return AuditReport(self._entries, self._first or Anchor(), self._at, broken)

    def _unexplained_gap(self, line: bytes, parts: list[bytes]) -> str:
        """Return why what stands before `line` and is no line cannot be the end of a crash."""
        said, found = torn(b"\n".join(parts)), _parsed(line)
        if not parts or (found is not None and all(found.get(name) == value for name, value in said.items())):
            return ""
        return "it is no line of an audit log, and the next one does not say that a crash cut it short"

    def _wrong(self, line: bytes) -> str:
        """Return why `line` does not continue the chain; empty where it does, which moves it on."""
        found = _parsed(line)
        if found is None:
            return "it is no line of an audit log"
        if self._first is None:
            self._first = self._at = Anchor(found["seq"] - 1, found["prev"])
        if found["seq"] != self._at.seq + 1:
            return f"it is number {found['seq']}, expected {self._at.seq + 1}: lines are missing, moved or doubled"
        if found["prev"] != self._at.digest:
            return f"it does not continue number {self._at.seq}"
        body = line.rstrip(b"\n")[:-_SEAL_BYTES] + b"}"
        if not hmac.compare_digest(_digest(body, self._secret), found["hash"]):
            return "its hash is not that of its content: it was changed, or the secret is another"
        if self._expected is not None and found["seq"] == self._expected.seq and found["hash"] != self._expected.digest:
            return f"number {found['seq']} is another than the one noted: the chain was written anew"
        self._at = Anchor(found["seq"], found["hash"])
        self._entries += 1
        return ""

    def _missing(self, lines: int) -> BrokenLink | None:
        expected = self._expected
        if expected is None or (self._first or Anchor()).seq < expected.seq <= self._at.seq:
            return None
        return BrokenLink(
            lines + 1, f"number {expected.seq}, which was noted, is not here; the last one is {self._at.seq}"
        )


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the fields of what looks like a line: an object that ends in its hash."""
    line = line.rstrip(b"\n")
    if line[-_SEAL_BYTES:][: len(_SEAL)] != _SEAL:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and all(isinstance(found.get(name), str) for name in ("prev", "hash"))
    return found if whole and type(found.get("seq")) is int else None


def _digest(body: bytes, secret: bytes) -> str:
    return hmac.new(secret, body, hashlib.sha256).hexdigest() if secret else hashlib.sha256(body).hexdigest()
