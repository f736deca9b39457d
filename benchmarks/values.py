"""Measure the effect of constraints on values: exactly right fields with masks, without them, and with reasons first.

    python -m benchmarks.values [--limit N] [--set SET] [--modes masks,none,reasons,thoughts] [--json]
    python -m benchmarks.values --data FILE [--model FOLDER]
    python -m benchmarks.values --variants all|NAME,... [--json]

Without `--data`, N documents of a set of `training.evaluate`, held out from training. FILE: lines of JSON (perhaps
gzipped), each `{"prompt", "schema", "expected"}`; `prompt` is a text or a list of messages. Every mode gets the same
prompt with the schema in it and takes the likeliest token. `masks`: the grammar of the schema; `none`: none, and the
first JSON object in the text counts; `reasons`: masks, with a string `reasoning` as first property; `thoughts`: free
text of at most 200 characters between `<think>` and `</think>`, then masks. `--variants` asks each question twice, with
a schema before and after one change that `sluicegate lint` advises, and compares the fields that it concerns.

A field is a leaf of `expected`; an array counts as one. Intervals are 95 %, by resampling documents: fields of one
answer stand or fall together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.values_variants import VARIANTS, Item, Pair, leaves
from sluicegate.engine import Engine, EngineSettings
from sluicegate.engine.settings import ModelSettings
from sluicegate.engine.text.prompt import render_chat
from sluicegate.gateway.answer.json_values import same
from sluicegate.grammar import GrammarError, Vocabulary, compile_json_schema, compile_structural_tags
from sluicegate.plugins import CompiledGrammar, Job, Prompt, Sampling

MODES = ("masks", "none", "reasons", "thoughts")
CONCURRENT = 8
RESAMPLES = 2_000
REASON = {"type": "string", "maxLength": 200, "description": "why, in a few words"}
Json = Any
_MISSING = object()
Counts = list[tuple[int, int]]
"""By document: (fields right, fields asked)."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of fields with its 95 % interval."""

    fields: int
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.share:6.1%} [{self.low:.1%}, {self.high:.1%}] of {self.fields} fields"


class Asker:
    """Asks one model in memory, `CONCURRENT` questions at a time."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._served = engine.models[name]
        self._vocabulary = Vocabulary.from_tokenizer(self._served.tokenizer)
        self._places = asyncio.Semaphore(CONCURRENT)
        self._number = 0

    @property
    def version(self) -> str:
        return self._served.version

    async def answers(self, items: Sequence[Item], mode: str, most: int) -> list[Json]:
        """Ask for all items. Return values in the order of `items`; `_MISSING` where an answer is not JSON."""
        return list(await asyncio.gather(*(self._answer(item, mode, most) for item in items)))

    async def _answer(self, item: Item, mode: str, most: int) -> Json:
        schema = _with_reasons(item.schema) if mode == "reasons" else item.schema
        text = render_chat(self._served.tokenizer, item.messages, schema=schema)
        tokens = tuple(self._served.tokenizer.encode(text, add_special_tokens=False))
        room = self._served.context_length - len(tokens)
        if room < 32:
            return _MISSING
        async with self._places:
            self._number += 1
            name = f"values-{self._number}"
            sampling = Sampling(max_tokens=min(most, room), temperature=0.0, close_on_length=mode != "none")
            job = Job(name, self._served.name, Prompt(text, tokens), sampling, self._grammar(schema, mode))
            said = "".join([piece.text async for piece in await self._engine.generate(job)])
        return first_object(said.rpartition("</think>")[2])

    def _grammar(self, schema: Json, mode: str) -> CompiledGrammar | None:
        if mode == "none":
            return None
        if mode != "thoughts":
            return compile_json_schema(schema, self._vocabulary)
        thought = {"type": "tag", "begin": "<think>", "content": {"type": "regex", "pattern": "[^<]{1,200}"}}
        answer = {"type": "json_schema", "json_schema": schema}
        elements = [{**thought, "end": "</think>"}, answer]
        tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
        return compile_structural_tags(tag, self._vocabulary)


def _with_reasons(schema: Json) -> Json:
    named = {"reasoning": REASON, **schema.get("properties", {})}
    return {**schema, "properties": named, "required": ["reasoning", *schema.get("required", [])]}


def first_object(text: str) -> Json:
    """Return the first JSON object in `text`, which may stand in prose or a code fence; `_MISSING` where none does."""
    decoder = json.JSONDecoder()
    for at in (at for at, byte in enumerate(text) if byte == "{"):
        try:
            return decoder.raw_decode(text, at)[0]
        except ValueError:
            continue
    return _MISSING


def right_fields(value: Json, expected: Json, paths: Sequence[tuple[str, ...]]) -> int:
    return sum(same(_at(value, path), _at(expected, path)) for path in paths)


def _at(value: Json, path: Sequence[str]) -> Json:
    """Return the value at a path. One that is left out counts as null: a schema says which of them it wants."""
    for part in path:
        if not isinstance(value, Mapping):
            return _MISSING
        value = value.get(part)
    return value


def share_of(counts: Counts) -> Share:
    asked = sum(most for _, most in counts)
    shares = sorted(_share(sample) for sample in _resampled(counts))
    return Share(asked, _share(counts), *_middle(shares))


def gain_of(before: Counts, after: Counts) -> tuple[float, float, float]:
    """Compute the gain in share and its interval. Documents are paired."""
    both = list(zip(before, after, strict=True))
    found = [_share([b for _, b in sample]) - _share([a for a, _ in sample]) for sample in _resampled(both)]
    return _share(after) - _share(before), *_middle(sorted(found))


def _share(counts: Sequence[tuple[int, int]]) -> float:
    return sum(right for right, _ in counts) / max(1, sum(asked for _, asked in counts))


def _resampled(of: Sequence[Any]) -> list[list[Any]]:
    rng = random.Random(1)
    return [rng.choices(of, k=len(of)) for _ in range(RESAMPLES)]


def _middle(values: Sequence[float]) -> tuple[float, float]:
    edge = len(values) // 40
    return values[edge], values[-edge - 1]


def read(path: Path, limit: int) -> list[Item]:
    """Read the documents of a file. Raises `SystemExit` for a line that is not of the form."""
    found = []
    for line in common.records(path, limit, fields=("prompt", "schema", "expected")):
        prompt, schema, expected = line["prompt"], line["schema"], line["expected"]
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        found.append(Item(tuple(messages), schema, expected))
    return found


def generated(name: str, documents: int) -> list[Item]:
    """Draw documents of the set of `training.evaluate` that begins with `name`, without open questions."""
    from training.evaluate import SETS

    sampler = next((sampler for known, sampler in SETS.items() if known.startswith(name)), None)
    if sampler is None:
        raise SystemExit(f"no set {name!r}; there are {'; '.join(SETS)}")
    rng, found = random.Random(f"values-{name}"), []
    for example in (sampler(rng) for _ in range(20 * documents)):
        question = example.questions[0]
        if question.answer.startswith("{"):
            found.append(Item(example.messages, question.schema, json.loads(question.answer)))
        if len(found) == documents:
            break
    return found


async def compare_modes(asker: Asker, items: Sequence[Item], modes: Sequence[str], most: int) -> dict[str, Counts]:
    found = {}
    for mode in modes:
        answers = await asker.answers(items, mode, most)
        paths = [leaves(item.expected) for item in items]
        each = zip(answers, items, paths, strict=True)
        found[mode] = [(right_fields(answer, item.expected, p), len(p)) for answer, item, p in each]
        print(f"{mode:10} {share_of(found[mode])}", flush=True)
    return found


async def compare_variant(asker: Asker, pairs: Sequence[Pair], most: int) -> tuple[Counts, Counts]:
    counts: list[Counts] = []
    for items in ([pair.before for pair in pairs], [pair.after for pair in pairs]):
        answers = await asker.answers(items, "masks", most)
        each = zip(answers, items, strict=True)
        counts.append([(right_fields(answer, item.expected, item.paths), len(item.paths)) for answer, item in each])
    return counts[0], counts[1]


DOCUMENTS = 100
"""As many are drawn where there is no file, unless `--limit` says how many."""


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    model = ModelSettings(path=str(args.model), name="asked")
    engine = Engine(EngineSettings(models=(model,), max_batch_size=CONCURRENT, threads=args.threads))
    await engine.start()
    try:
        asker = Asker(engine, "asked")
        print(f"# {common.machine()}; model {args.model}, version {asker.version}")
        items = read(args.data, args.limit) if args.data else generated(args.set, args.limit or DOCUMENTS)
        if args.variants:
            return await _variants(asker, items, args)
        found = await compare_modes(asker, items, args.modes.split(","), args.max_tokens)
        return {"version": asker.version, **{mode: vars_of(share_of(counts)) for mode, counts in found.items()}}
    finally:
        await engine.close()


async def _variants(asker: Asker, items: Sequence[Item], args: argparse.Namespace) -> dict[str, Any]:
    report: dict[str, Any] = {"version": asker.version}
    names = list(VARIANTS) if args.variants == "all" else args.variants.split(",")
    for name in names:
        pairs = [pair for item in items if (pair := VARIANTS[name](item)) is not None][: args.pairs]
        if not pairs:
            continue
        try:
            before, after = await compare_variant(asker, pairs, args.max_tokens)
        except GrammarError as error:
            print(f"{name:20} {error}")
            continue
        gain, low, high = gain_of(before, after)
        b, a = share_of(before), share_of(after)
        report[name] = {"fields": b.fields, "before": b.share, "after": a.share, "gain": [gain, low, high]}
        line = f"{b.share:6.1%} -> {a.share:6.1%}  ({gain:+.1%} [{low:+.1%}, {high:+.1%}])"
        print(f"{name:20} {line}  {b.fields} fields of {len(pairs)} documents", flush=True)
    return report


def vars_of(share: Share) -> dict[str, float]:
    return {"fields": share.fields, "share": share.share, "low": share.low, "high": share.high}


def main() -> None:
    form = "lines of JSON, each with `prompt`, `schema` and `expected`"
    made = common.parser(__doc__, None, DOCUMENTS, "documents", form=form, endless=False)
    made.add_argument("--set", default="held-out layouts", help="of `training.evaluate`, by its beginning")
    made.add_argument("--model", default="bundled", help="the bundled model or a folder")
    made.add_argument("--modes", default=",".join(MODES))
    made.add_argument("--variants", default="", help=f"`all`, or some of {', '.join(VARIANTS)}")
    made.add_argument("--pairs", type=int, default=120, help="most documents of a variant")
    made.add_argument("--max-tokens", type=int, default=320)
    made.add_argument("--threads", type=int)
    args = made.parse_args()
    found = asyncio.run(measure(args))
    common.report(args, found)


if __name__ == "__main__":
    main()
