"""Measure the calibration of `sluicegate.confidence`: the share of right values by their predicted probability.

    python -m benchmarks.confidence [--set SET] [--limit N] [--data FILE] [--model FOLDER] [--json]

Documents as in `benchmarks.values`, each asked once under its schema; the likeliest token is taken. A value is a leaf
of the answer; it is right where the expected answer has an equal one at its place. ECE: mean distance between share and
probability over ten bins of equal width, by their values. AUROC: how often a right value has a higher
probability than a wrong one; 0.5 is chance. Shares have a 95 % Wilson interval.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks import common
from benchmarks.values import CONCURRENT, generated, read
from benchmarks.values_variants import Item
from sluicegate.engine import Engine, EngineSettings
from sluicegate.engine.settings import ModelSettings
from sluicegate.engine.text.prompt import render_chat
from sluicegate.gateway.answer.confidence import drawn_of, values_of
from sluicegate.gateway.answer.leaves import leaves_of
from sluicegate.gateway.commands.statistics import share
from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.plugins import Job, Prompt, Sampling

BINS = 10


class ValueConfidence(NamedTuple):
    """A value with its predicted probability. `right`: it equals the expected one."""

    kind: str
    probability: float
    right: bool


async def confidences_of(
    engine: Engine, vocabulary: Vocabulary, item: Item, number: int, most: int
) -> list[ValueConfidence]:
    served = engine.models["asked"]
    text = render_chat(served.tokenizer, item.messages, schema=item.schema)
    tokens = tuple(served.tokenizer.encode(text, add_special_tokens=False))
    room = served.context_length - len(tokens)
    if room < 32:
        return []
    sampling = Sampling(max_tokens=min(most, room), temperature=0.0, close_on_length=True)
    grammar = compile_json_schema(item.schema, vocabulary)
    job = Job(f"confidence-{number}", "asked", Prompt(text, tokens), sampling, grammar, explain=True)
    generation = await engine.generate(job)
    said = "".join([piece.text async for piece in generation])
    assert generation.timeline is not None
    drawn = drawn_of(generation.timeline.steps)
    values = {leaf.pointer: leaf for leaf in leaves_of(said)}
    found = []
    for leaf_confidence in values_of(drawn, said, 0, item.schema):
        leaf = values[leaf_confidence["pointer"]]
        kind = "listed" if "alternatives" in leaf_confidence else type(leaf.value).__name__
        found.append(
            ValueConfidence(kind, leaf_confidence["probability"], _same(leaf.value, _at(item.expected, leaf.path)))
        )
    return found


def _at(value: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path; one that is left out counts as null."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return ...
    return value


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def report(confidences: Sequence[ValueConfidence]) -> dict[str, Any]:
    bins: list[list[ValueConfidence]] = [[] for _ in range(BINS)]
    for one in confidences:
        bins[min(BINS - 1, int(one.probability * BINS))].append(one)
    gaps = [abs(_mean([o.right for o in found]) - _mean([o.probability for o in found])) * len(found) for found in bins]
    return {
        "values": len(confidences),
        "right": _mean([one.right for one in confidences]),
        "predicted": _mean([one.probability for one in confidences]),
        "ece": sum(gaps) / max(1, len(confidences)),
        "brier": _mean([(one.probability - one.right) ** 2 for one in confidences]),
        "auroc": _auroc(confidences),
        "bins": [_row(found) for found in bins],
    }


def _row(found: Sequence[ValueConfidence]) -> list[float]:
    """Return the count of values, their mean probability, the share that is right, and its interval."""
    between = share(sum(one.right for one in found), len(found))
    low, high = (0.0, 1.0) if between is None else (between.low, between.high)
    return [len(found), _mean([o.probability for o in found]), _mean([o.right for o in found]), low, high]


def _auroc(confidences: Sequence[ValueConfidence]) -> float | None:
    """Compute the area under the ROC curve by ranks, ties shared (Mann and Whitney, 1947); None where one class is
    empty."""
    right, wrong = ([o.probability for o in confidences if o.right is way] for way in (True, False))
    if not right or not wrong:
        return None
    wins = sum((a > b) + 0.5 * (a == b) for a in right for b in wrong)
    return wins / (len(right) * len(wrong))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def show(name: str, found: Mapping[str, Any]) -> None:
    auroc = "     -" if found["auroc"] is None else f"{found['auroc']:6.3f}"
    print(
        f"{name:10} {found['values']:5} values, {found['right']:6.1%} right, {found['predicted']:6.1%} predicted, "
        f"ECE {found['ece']:.3f}, Brier {found['brier']:.3f}, AUROC {auroc}"
    )


DOCUMENTS = 100
"""As many are drawn where there is no file, unless `--limit` says how many."""


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    model = ModelSettings(path=str(args.model), name="asked")
    engine = Engine(EngineSettings(models=(model,), max_batch_size=CONCURRENT, threads=args.threads))
    await engine.start()
    try:
        served = engine.models["asked"]
        print(f"# {common.machine()}; model {args.model}, version {served.version}")
        items = read(args.data, args.limit) if args.data else generated(args.set, args.limit or DOCUMENTS)
        vocabulary, places = Vocabulary.from_tokenizer(served.tokenizer), asyncio.Semaphore(CONCURRENT)

        async def asked(number: int, item: Item) -> list[ValueConfidence]:
            async with places:
                return await confidences_of(engine, vocabulary, item, number, args.max_tokens)

        each = await asyncio.gather(*(asked(number, item) for number, item in enumerate(items)))
    finally:
        await engine.close()
    confidences = [one for found in each for one in found]
    kinds = {
        "all": confidences,
        **{kind: [o for o in confidences if o.kind == kind] for kind in sorted({o.kind for o in confidences})},
    }
    return {"version": served.version, **{kind: report(found) for kind, found in kinds.items()}}


def main() -> None:
    form = "lines of JSON, each with `prompt`, `schema` and `expected`"
    made = common.parser(__doc__, None, DOCUMENTS, "documents", form=form, endless=False)
    made.add_argument("--set", default="held-out layouts", help="of `training.evaluate`, by its beginning")
    made.add_argument("--model", default="bundled", help="the bundled model or a folder")
    made.add_argument("--max-tokens", type=int, default=320)
    made.add_argument("--threads", type=int)
    args = made.parse_args()
    found = asyncio.run(measure(args))
    for kind, said in found.items():
        if kind != "version":
            show(kind, said)
    print("predicted  values   mean   right  [95 %]")
    for place, (n, mean, right, low, high) in enumerate(found["all"]["bins"]):
        between = f"{place / BINS:.1f}-{(place + 1) / BINS:.1f}"
        print(f"{between}    {n:5.0f}  {mean:6.1%}  {right:6.1%}  [{low:.1%}, {high:.1%}]")
    common.report(args, found)


if __name__ == "__main__":
    main()
