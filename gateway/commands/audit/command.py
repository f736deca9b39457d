"""`sluicegate audit verify`: whether an audit log is whole, and where its chain stands."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from sluicegate.gateway.audit.chain import START, Anchor, audited
from sluicegate.gateway.audit.trail import secret_of
from sluicegate.gateway.config import load
from sluicegate.gateway.settings import AuditSettings
from sluicegate.plugins.errors import ConfigurationError

BROKEN = 1


def define(parser: argparse.ArgumentParser) -> None:
    """Add the action of `audit`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="check every line of a log; exit status 1 where one does not hold")
    verify.add_argument("files", type=Path, nargs="*", metavar="FILE", help="oldest first (default: [audit] path)")
    verify.add_argument("--config", type=Path, metavar="FILE", help="TOML file that names [audit] path and secret_file")
    verify.add_argument("--secret-file", default="", metavar="FILE", help="the secret that the lines are sealed under")
    verify.add_argument("--expect", default="", metavar="SEQ:HASH", help="where the chain stood once, noted elsewhere")
    verify.add_argument("--json", action="store_true", help="print one JSON object")
    verify.set_defaults(run=_verify)


def _verify(parsed: argparse.Namespace) -> int:
    settings = load(parsed.config, os.environ).audit
    files = parsed.files or ([Path(settings.path)] if settings.path else [])
    if not files:
        raise ConfigurationError("name the files of the log, or [audit] path in --config")
    secret = secret_of(AuditSettings(secret_file=parsed.secret_file or settings.secret_file))
    found = audited(_lines(files), secret, _anchor(parsed.expect) if parsed.expect else None)
    if parsed.json:
        print(json.dumps({**asdict(found), "whole": found.broken is None}))
    elif found.broken is not None:
        print(f"line {found.broken.line} does not hold: {found.broken.reason}")
        print(f"{found.entries} lines before it hold; the last is {found.last}")
    else:
        begins = "" if found.first.digest == START else f", which continue number {found.first.seq} of an earlier file"
        print(f"{found.entries} lines hold{begins}; the last is {found.last}")
    return BROKEN if found.broken is not None else 0


def _lines(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        try:
            with path.open("rb") as opened:
                yield from opened
        except OSError as error:
            raise ConfigurationError(f"cannot read the audit log {path}: {error.strerror}") from error


def _anchor(text: str) -> Anchor:
    seq, _, digest = text.partition(":")
    if not seq.isdigit() or len(digest) != len(START):
        raise ConfigurationError(f"--expect takes NUMBER:HASH as `verify` prints it, found {text[:100]!r}")
    return Anchor(int(seq), digest)
