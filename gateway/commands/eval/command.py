"""`sluicegate eval SUITE`: cases with known answers, asked of a running gateway; quality with intervals, or two
versions of it side by side with a paired test.

Exit status: 0; 1 where something could not be asked, quality is below `--at-least`, or the second version is worse.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from sluicegate.gateway.commands.arguments import count, count_or_none, positive
from sluicegate.gateway.commands.eval.asking import AskedCase, Variant, ask_all, first_model, variant_of
from sluicegate.gateway.commands.eval.cases import Case, Suite
from sluicegate.gateway.commands.eval.checks import CheckScore, scored
from sluicegate.gateway.commands.eval.forms import FORMS, read_suite
from sluicegate.gateway.commands.eval.judge import Agreement, JudgeFailed, ModelJudge
from sluicegate.gateway.commands.eval.options import check_options
from sluicegate.gateway.commands.eval.report import page, table
from sluicegate.gateway.commands.eval.saving import check_folder, save
from sluicegate.gateway.commands.eval.summary import ScoredCase, TokenPrices, comparison, figures, is_worse
from sluicegate.gateway.commands.progress import bar
from sluicegate.plugins import ConfigurationError


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `eval`."""
    parser.add_argument("suite", type=Path, help="cases: .jsonl or .toml, or a foreign form")
    parser.add_argument("--form", choices=("auto", *FORMS), default="auto", help="of SUITE (%(default)s)")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the gateway (%(default)s)")
    parser.add_argument("--key", default=os.environ.get("SLUICEGATE_API_KEY", ""), help="API key ($SLUICEGATE_API_KEY)")
    parser.add_argument("--model", default="", help="model to ask (the first that is served)")
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME[:model=,url=,schema=,key=,plain=]",
        help="a version to ask; two of them are compared. schema is enforced, in_prompt or none",
    )
    parser.add_argument("--judge", default="", metavar="MODEL", help="model that judges, where cases ask for one")
    parser.add_argument("--limit", type=count_or_none, default=0, help="cases (all)")
    parser.add_argument("--repeat", type=count, default=1, help="ask each case so often (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first repeat, and of intervals (%(default)s)")
    parser.add_argument("--parallel", type=count, default=4, help="requests at the same time (%(default)s)")
    parser.add_argument("--timeout", type=positive, default=300.0, help="seconds for one answer (%(default)s)")
    parser.add_argument("--request", default="{}", metavar="JSON", help="further fields of every request")
    parser.add_argument("--price", default="0,0", metavar="PROMPT,COMPLETION", help="of a million tokens, for the cost")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="SHARE", help="quality below it fails")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report with every case")
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="write the report with every case as JSON there, for the console"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Evaluate a suite and print the report; return 1 for a fault, else 0. Raises `ConfigurationError` before anything
    is asked where the suite or the arguments are wrong."""
    _check_numbers(parsed)
    suite = read_suite(parsed.suite, parsed.form)
    cases = [case for case in suite.cases if case.human is None][: parsed.limit or None]
    for case in cases:
        check_options(case)
    if parsed.save is not None:
        check_folder(parsed.save)
    variants, prices = _variants(parsed), _prices(parsed.price)
    report, judged = asyncio.run(_evaluate(parsed, suite, cases, variants, prices))
    if parsed.html is not None:
        parsed.html.write_text(page(report, judged), "utf-8")
    if parsed.save is not None:
        save(parsed.save, report, judged)
    print(json.dumps(report) if parsed.json else table(report))
    faults = list(_faults(report, judged, parsed.at_least))
    for fault in faults:
        print(f"sluicegate: {fault}", file=sys.stderr)
    return int(bool(faults))


def _check_numbers(parsed: argparse.Namespace) -> None:
    """Refuse a share that is none, and a report that could not be written at the end."""
    if not 0 <= parsed.at_least <= 1:
        raise ConfigurationError(f"--at-least is a share from 0 to 1, found {parsed.at_least}")
    if parsed.html is not None and (parsed.html.is_dir() or not parsed.html.absolute().parent.is_dir()):
        raise ConfigurationError(f"--html {parsed.html}: name a file in a folder that is there")


def _variants(parsed: argparse.Namespace) -> list[Variant]:
    if len(parsed.variant) > 2:
        raise ConfigurationError(f"at most two versions are compared, found {len(parsed.variant)}")
    try:
        request = json.loads(parsed.request)
    except ValueError as error:
        raise ConfigurationError(f"--request is no JSON: {error}") from error
    if not isinstance(request, dict):
        raise ConfigurationError(f"--request must be an object of fields of the body, found {parsed.request}")
    url = parsed.url.rstrip("/")
    usual = Variant(parsed.model or "gateway", url, parsed.model, key=parsed.key, request=request)
    given = [variant_of(text, usual) for text in parsed.variant] or [usual]
    if len({one.name for one in given}) < len(given):
        raise ConfigurationError("two versions need two names")
    return [one if one.model else dataclasses.replace(one, model=first_model(one.url, one.key)) for one in given]


def _prices(text: str) -> TokenPrices:
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError:
        raise ConfigurationError(f"--price {text!r} must look like 0.15,0.60") from None
    if not (prompt >= 0 and completion >= 0 and math.isfinite(prompt + completion)):
        raise ConfigurationError(f"--price {text!r}: prices are finite, and 0 or more")
    return TokenPrices(prompt, completion)


async def _evaluate(
    parsed: argparse.Namespace, suite: Suite, cases: Sequence[Case], variants: Sequence[Variant], prices: TokenPrices
) -> tuple[dict[str, Any], dict[str, list[ScoredCase]]]:
    limits = httpx.Limits(max_connections=parsed.parallel)
    async with httpx.AsyncClient(timeout=parsed.timeout, limits=limits, trust_env=False) as client:
        judge = _judge(parsed, suite, cases, client, variants[0])
        agreement = await judge.agreement(suite.cases) if judge is not None else None
        found = await ask_all(
            client,
            variants,
            cases,
            repeat=parsed.repeat,
            seed=parsed.seed,
            parallel=parsed.parallel,
            on_done=bar("asked"),
        )
        every = await asyncio.gather(*(_judged(one, judge) for one in found))
        judged = {v.name: [one for one in every if one.asked.variant == v.name] for v in variants}
        preferences = await _preferences(judge, judged)
    return _report(parsed, suite, judged, agreement, prices, preferences), judged


def _judge(
    parsed: argparse.Namespace, suite: Suite, cases: Sequence[Case], client: httpx.AsyncClient, usual: Variant
) -> ModelJudge | None:
    wanted = any(check["type"] == "judge" for case in cases for check in case.checks)
    model, url = parsed.judge or suite.judge.get("model", ""), str(suite.judge.get("url", usual.url)).rstrip("/")
    if not wanted:
        return None
    if not model:
        raise ConfigurationError(
            "cases ask for a judge: name one with --judge MODEL, or `model` in the suite's [judge]"
        )
    plain = usual.plain or url != usual.url
    who = dataclasses.replace(usual, name="judge", model=str(model), url=url, schema="enforced", plain=plain)
    return ModelJudge(client, who, suite.judge, parsed.parallel)


async def _judged(asked: AskedCase, judge: ModelJudge | None) -> ScoredCase:
    if asked.reply.error:
        return ScoredCase(asked, ())
    checks: list[CheckScore] = []
    try:
        for options in asked.case.checks:
            if options["type"] != "judge":
                checks.append(scored(options, asked.case, asked.reply))
            elif judge is not None:
                checks.append(await judge.check(options, asked))
    except JudgeFailed as failed:
        return ScoredCase(asked, tuple(checks), str(failed))
    return ScoredCase(asked, tuple(checks))


async def _preferences(judge: ModelJudge | None, judged: dict[str, list[ScoredCase]]) -> dict[str, int] | None:
    """Count which of two versions the judge prefers, over the cases that it marks; None without a judge or without two
    versions."""
    if judge is None or len(judged) < 2:
        return None
    left, right = judged.values()
    pairs = [
        (one.asked, other.asked)
        for one, other in zip(left, right, strict=True)
        if any(check["type"] == "judge" for check in one.asked.case.checks)
        and not one.asked.reply.error
        and not other.asked.reply.error
    ]
    told = await asyncio.gather(*(judge.prefer(*pair) for pair in pairs))
    counts = {side: sum(one == side for one in told) for side in ("left", "right", "tie")}
    return counts | {"unjudged": sum(one is None for one in told), "pairs": len(pairs)}


def _report(
    parsed: argparse.Namespace,
    suite: Suite,
    judged: dict[str, list[ScoredCase]],
    agreement: Agreement | None,
    prices: TokenPrices,
    preferences: dict[str, int] | None,
) -> dict[str, Any]:
    people = sum(case.human is not None for case in suite.cases)
    unused = (f"{people} cases with `human` were not used: no case asks for a judge",)
    marks = any(check.check == "judge" for found in judged.values() for one in found for check in one.checks)
    unknown = ("how far the judge agrees with people was not measured: no case has `human`",)
    report: dict[str, Any] = {
        "suite": suite.name,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cases": len({one.asked.case.id for found in judged.values() for one in found}),
        "repeat": parsed.repeat,
        "seed": parsed.seed,
        "notes": [
            *suite.notes,
            *(unknown if marks and agreement is None else ()),
            *(unused if people and agreement is None else ()),
        ],
        "judge_agreement": None if agreement is None else dataclasses.asdict(agreement),
        "variants": {name: figures(found, prices, parsed.seed) for name, found in judged.items()},
        "comparison": None,
    }
    if len(judged) == 2:
        left, right = judged
        compared = comparison(judged[left], judged[right], parsed.seed)
        report["comparison"] = {"left": left, "right": right, **compared, "preferences": preferences}
    return report


def _faults(report: dict[str, Any], judged: dict[str, list[ScoredCase]], at_least: float) -> Iterator[str]:
    """Yield what makes the exit status 1, in words."""
    for name, found in judged.items():
        reasons = [one.error for one in found if one.error]
        if reasons:
            yield f"{name}: {len(reasons)} of {len(found)} could not be asked; the first: {reasons[0]}"
    name, last = list(report["variants"].items())[-1]
    if last["quality"] is None or last["quality"]["value"] < at_least:
        quality = "unknown" if last["quality"] is None else f"{last['quality']['value']:.1%}"
        yield f"{name}: quality is {quality}, and has to be {at_least:.1%} at least (--at-least)"
    compared = report["comparison"]
    if compared is not None and is_worse(compared):
        yield f"{compared['right']} is worse than {compared['left']} (p = {compared['p']:.4f})"
