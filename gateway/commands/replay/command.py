"""`sluicegate replay`: requests that a gateway recorded, asked again there of another model, version or policy.

Exit status: 0; 1 where a request could not be asked, or fewer than `--at-least` say the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from typing import Any

import httpx

from sluicegate.gateway.commands.arguments import count
from sluicegate.gateway.commands.reasons import FAULTS, reason, words_of
from sluicegate.gateway.commands.replay.summary import report_of, table
from sluicegate.plugins import ConfigurationError


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the gateway that has recorded")
    parser.add_argument("--key", default=os.environ.get("SLUICEGATE_API_KEY", ""), help="an operator's key")
    parser.add_argument("--model", default="", help="model or version that answers now (the one that did then)")
    parser.add_argument("--policy", default="", help="policy under which it is asked (the one that claims it)")
    parser.add_argument("--of-key", default="", metavar="ID", help="only requests of this key")
    parser.add_argument("--of-tenant", default="", metavar="NAME")
    parser.add_argument("--of-user", default="", metavar="NAME", help="with --of-tenant")
    parser.add_argument("--since", type=float, default=0.0, metavar="SECONDS", help="recorded since then (Unix time)")
    parser.add_argument("--limit", type=count, default=100, help="the newest so many (100)")
    parser.add_argument("--parallel", type=count, default=4)
    parser.add_argument(
        "--reveal", action="store_true", help="values and texts in the JSON, too; needs the scope review"
    )
    parser.add_argument("--at-least", type=float, default=0.0, metavar="SHARE", help="exit 1 where fewer are the same")
    parser.add_argument("--seed", type=int, default=0, help="of the intervals")
    parser.add_argument("--json", action="store_true", help="everything, as one object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    if parsed.limit < 1 or parsed.parallel < 1:
        raise ConfigurationError("--limit and --parallel must be at least 1")
    if parsed.of_user and not parsed.of_tenant:
        raise ConfigurationError("--of-user is one of a tenant; give --of-tenant, too")
    found, failed = asyncio.run(_replayed(parsed))
    report = report_of(found, failed, parsed.seed)
    print(json.dumps(report, indent=1) if parsed.json else table(report))
    same = report["same"]
    return 1 if failed or (same is not None and same["value"] < parsed.at_least) else 0


async def _replayed(parsed: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    headers = {"authorization": f"Bearer {parsed.key}"} if parsed.key else {}
    async with httpx.AsyncClient(base_url=parsed.url, headers=headers, timeout=None, trust_env=False) as client:
        ids = await _listed(client, parsed)
        places, asked = asyncio.Semaphore(parsed.parallel), {"model": parsed.model, "policy": parsed.policy}

        async def one(id: str) -> dict[str, Any]:
            async with places:
                return await _replay(client, id, {**asked, "reveal": parsed.reveal})

        answers = await asyncio.gather(*(one(id) for id in ids))
    failed = [answer for answer in answers if "error" in answer]
    return [answer for answer in answers if "error" not in answer], failed


async def _listed(client: httpx.AsyncClient, parsed: argparse.Namespace) -> list[str]:
    """Return the ids of the recordings that are asked for. Raises `ConfigurationError`."""
    asked = {"key": parsed.of_key, "tenant": parsed.of_tenant, "user": parsed.of_user}
    params = {**{name: value for name, value in asked.items() if value}, "since_s": parsed.since, "limit": parsed.limit}
    try:
        answer = await client.get("/admin/recordings", params=params)
        if answer.status_code != 200:
            raise ConfigurationError(f"{parsed.url} gives no list: {words_of(answer)}")
        ids = [str(one["id"]) for one in answer.json()["data"]]
    except FAULTS as error:
        raise ConfigurationError(f"{parsed.url} gives no list ({reason(error)}); is a gateway there?") from error
    if not ids:
        raise ConfigurationError(f"{parsed.url} has recorded no such request")
    return ids


async def _replay(client: httpx.AsyncClient, id: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = await client.post(f"/admin/recordings/{id}/replay", json=body)
        found: dict[str, Any] = answer.json() if answer.status_code == 200 else {"error": words_of(answer)}
    except FAULTS as error:
        found = {"error": reason(error)}
    return {"id": id, **found}
