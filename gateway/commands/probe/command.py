"""`sluicegate probe train MODEL DATA` and `sluicegate probe evaluate MODEL PROBE DATA`.

A row of DATA is a JSON object with `text`, the answer, and `label`; `prompt`, what was asked, `category` and `source`
if it has them. Whole sources are left out in turn: what is reported of one comes from a probe that never saw it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sluicegate.gateway.commands.probe.rows import LabelledAnswer, answers_of
from sluicegate.plugins.errors import ConfigurationError

NOTES = """\
DATA are JSON lines (or .gz) of `text` and `label` (unsafe, attack, toxic, leak or safe, benign, clean), perhaps
`prompt`, `category` and `source`. `train` writes a folder to name in `probes` of the model in [stages.generate.engine]
models."""


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `probe`."""
    parser.epilog = NOTES
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    train = verbs.add_parser("train", help="fit a probe and write it to a folder")
    _shared(train)
    train.add_argument("--out", type=Path, required=True, help="folder to write")
    train.add_argument("--name", default="harm", help="label of what it looks for (harm)")
    train.add_argument("--layers", default="auto", help="numbers from 1 on, with commas; auto = the best single one")
    train.add_argument("--hidden", type=int, default=0, help="units of a hidden layer; 0 = a linear probe")
    train.set_defaults(run=_train)
    evaluate = verbs.add_parser("evaluate", help="AUC and recall beside the shipped text classifier")
    _shared(evaluate)
    evaluate.add_argument("--probe", type=Path, help="a trained probe, read as it is; none = one left out at a time")
    evaluate.add_argument("--layers", default="auto", help="without --probe, as for train")
    evaluate.add_argument("--hidden", type=int, default=0, help="without --probe, as for train")
    evaluate.set_defaults(run=_evaluate)


def _shared(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", help="folder, name on the hub, or `bundled`")
    verb.add_argument("data", nargs="+", type=Path, help="JSON lines")
    verb.add_argument("--limit", type=int, default=0, help="rows of each file (all)")
    verb.add_argument("--dtype", default=None, help="as the model is served with")
    verb.add_argument("--device", default="cpu", help="as the model is served on")
    verb.add_argument("--weights", default="full", choices=("full", "int8", "int4", "fp8"), help="as it is served with")
    verb.add_argument("--unit-chars", type=int, default=120, help="of a unit, as in [stages.moderate.probe]")
    verb.add_argument("--seed", type=int, default=0, help="of what is drawn")
    verb.add_argument("--json", action="store_true", help="print one JSON object")


def _train(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.commands.probe.training import trained

    if parsed.hidden < 0 or not parsed.name:
        raise ConfigurationError("--hidden is 0 or more, and --name is not empty")
    report = trained(parsed, _rows(parsed))
    print(json.dumps(report) if parsed.json else _report_text(report))
    return 0


def _evaluate(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.commands.probe.evaluation import evaluated, table_of

    report = evaluated(parsed, _rows(parsed))
    print(json.dumps(report) if parsed.json else table_of(report))
    return 0


def _rows(parsed: argparse.Namespace) -> list[LabelledAnswer]:
    """Read the labelled answers. Raises `ConfigurationError` where all of them have the same label."""
    rows = [row for path in parsed.data for row in answers_of(path, parsed.limit)]
    bad = sum(row.bad for row in rows)
    if not bad or bad == len(rows):
        kind = "harmful" if not bad else "harmless"
        raise ConfigurationError(f"{len(rows)} rows, none of them {kind}: a probe needs both to tell them apart")
    return rows


def _report_text(report: dict[str, object]) -> str:
    return (
        f"{report['out']}: {report['kind']} probe {report['label']!r} on layers {report['layers']} of "
        f"{report['model']}, from {report['rows']} rows ({report['bad']} bad)\n"
        f"AUC on fifths left out {report['auc']}, by prompt; other sources: `probe evaluate`. "
        f"block = {report['block_at_1_percent']} lets 1 % of the harmless ring"
    )
