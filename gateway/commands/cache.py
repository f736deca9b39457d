"""`sluicegate cache stats | purge | report`: the cache of a running gateway, over its HTTP interface."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import httpx

from sluicegate.gateway.commands.reasons import FAULTS, reason, words_of
from sluicegate.gateway.commands.tables import table
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.errors import plain

LABELS = ("tag", "model_version", "template_version", "rails")
KEY_ENV = "SLUICEGATE_API_KEY"


def define(cache: argparse.ArgumentParser) -> None:
    """Add the actions of `cache`."""
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    stats = actions.add_parser("stats", help="print the counters of every cache")
    stats.add_argument("--json", action="store_true", help="print one JSON object")
    stats.set_defaults(run=_stats)
    purge = actions.add_parser("purge", help="withdraw kept answers: the tenant's all, or those with one label")
    label = purge.add_mutually_exclusive_group()
    for name in LABELS:
        label.add_argument(f"--{name.replace('_', '-')}", help=f"only answers with this {name.replace('_', ' ')}")
    whose = purge.add_mutually_exclusive_group()
    whose.add_argument("--tenant", help="another tenant than the key's own (takes the scope `admin`)")
    whose.add_argument("--all-tenants", action="store_true", help="everybody's (takes the scope `admin`)")
    purge.set_defaults(run=_purge)
    report = actions.add_parser("report", help="a hit was wrong: withdraw that entry and count it")
    report.add_argument("entry", help="what the answer's header x-sluicegate-cache-entry said")
    report.add_argument("--model", required=True, help="the model that was asked")
    report.add_argument("--tenant", help="another tenant than the key's own (takes the scope `admin`)")
    report.set_defaults(run=_report)
    for action in (stats, purge, report):
        action.add_argument("--url", default="http://127.0.0.1:8000", help="address of the gateway (%(default)s)")


def _stats(parsed: argparse.Namespace) -> int:
    found = _call(parsed.url, "GET", "/admin/cache")
    if parsed.json:
        print(json.dumps(found, indent=2))
        return 0
    rows = [(cache, name, plain(value)) for cache, counters in found.items() for name, value in counters.items()]
    print(table(("cache", "counter", "value"), rows) if rows else "this gateway keeps no answers")
    return 0


def _purge(parsed: argparse.Namespace) -> int:
    body = {name: getattr(parsed, name) for name in (*LABELS, "tenant") if getattr(parsed, name) is not None}
    if parsed.all_tenants:
        body["all_tenants"] = True
    answer = _call(parsed.url, "POST", "/v1/cache/purge", body)
    for name, deleted in answer["purged"].items():
        print(f"{name}: withdrawn; {deleted} entries deleted at once")
    return 0


def _report(parsed: argparse.Namespace) -> int:
    body = {"entry": parsed.entry, "model": parsed.model} | ({"tenant": parsed.tenant} if parsed.tenant else {})
    _call(parsed.url, "POST", "/v1/cache/false_hits", body)
    print("withdrawn and counted")
    return 0


def _call(url: str, method: str, path: str, body: Any = None) -> Any:
    """Call the gateway and return the JSON of its answer. Raises `ConfigurationError` with what the gateway said."""
    key = os.environ.get(KEY_ENV)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.request(method, url.rstrip("/") + path, json=body, headers=headers, timeout=30)
        if answer.is_success:
            return answer.json()
    except FAULTS as error:
        said = f"no gateway answers at {url} ({reason(error)}); give its address with --url"
        raise ConfigurationError(said) from error
    raise ConfigurationError(f"{url}{path} answered {words_of(answer)}; the key comes from ${KEY_ENV}")
