"""Read from its DER form when a certificate ends: Python's `ssl` does so only of certificates that it has verified."""

from __future__ import annotations

from datetime import UTC, datetime

_SEQUENCE, _UTC_TIME, _VERSION = 0x30, 0x17, 0xA0


def subject_and_end(der: bytes) -> tuple[bytes, float]:
    """Return a certificate's subject, encoded, and when it ends, in Unix seconds; the few fields before it are
    skipped: RFC 5280, 4.1. Raises `ValueError` or `IndexError` for bytes that are no certificate."""
    body = _inside(_inside(der))
    for _ in range(3 + (body[0] == _VERSION)):  # version, where it is said; serial number, signature, issuer
        body = _split(body)[2]
    _, validity, rest = _split(body)
    after = _split(_split(validity)[2])
    return _split(rest)[1], _moment(after[0], after[1])


def _split(der: bytes) -> tuple[int, bytes, bytes]:
    """Return tag, content and rest of the first value."""
    length, at = der[1], 2
    if length & 0x80:
        at = 2 + (length & 0x7F)
        length = int.from_bytes(der[2:at], "big")
    return der[0], der[at : at + length], der[at + length :]


def _inside(der: bytes) -> bytes:
    tag, content, _ = _split(der)
    if tag != _SEQUENCE:
        raise ValueError(f"a sequence was expected, found tag {tag:#x}")
    return content


def _moment(tag: int, content: bytes) -> float:
    """Return the Unix time of a UTCTime, whose years are 1950 to 2049, or of a GeneralizedTime."""
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
