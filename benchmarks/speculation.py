"""Measure speculative decoding on the extraction task, for each proposer: acceptance, tokens a step, speed.

    python -m benchmarks.speculation [--limit 40] [--draft FOLDER] [--heads FILE] [--concurrent 1] [--repeats 3]

Documents that training never saw, each under its schema, greedy, on the bundled model. `--draft` names a smaller model
with the same tokenizer (`python -m training.train --width 64 --layers 2 --heads 2 --out FOLDER`, after copying the
tokenizer there). Heads (`python -m training.heads --out FOLDER`) take part if they are named or lie beside the model.
Guessing changes no answer: that is checked, among those with and those without forced tokens (which are spelled as the
tokenizer would, where a model might spell otherwise). Speed is in CPU seconds of the whole process, so that a busy
machine counts less.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.common import machine, model_parser, report
from benchmarks.shapes import loaded
from sluicegate.engine import Engine, EngineSettings, LoadedModel, load_model
from sluicegate.engine.checkpoints.draft_heads import read_heads
from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.plugins import CompiledGrammar, Job, Prompt, Sampling
from training.evaluate import prompt_of
from training.examples import sample_example


@dataclass(frozen=True, slots=True)
class Proposers:
    jump: bool = True
    lookup: bool = False
    model: bool = False
    heads: bool = False

    @property
    def guesses(self) -> bool:
        return self.lookup or self.model or self.heads


WAYS: dict[str, Proposers] = {
    "none": Proposers(jump=False),
    "forced": Proposers(),
    "lookup": Proposers(jump=False, lookup=True),
    "forced + lookup": Proposers(lookup=True),
    "forced + heads": Proposers(heads=True),
    "forced + lookup + heads": Proposers(lookup=True, heads=True),
    "forced + draft model": Proposers(model=True),
    "forced + lookup + draft model": Proposers(lookup=True, model=True),
}


def main() -> None:
    args = _arguments()
    model = loaded(args.model)
    if args.heads is not None:
        model.heads = read_heads(Path(args.heads), model.module)
    if args.draft is not None:
        model.draft = load_model(args.draft)
    print(f"# {machine()}\n# {model.name}, {model.parameter_count / 1e6:.2f} M parameters; {args.limit} documents")
    tasks = _tasks(model, args.limit)
    found = asyncio.run(_measure_all(model, tasks, args))
    report(args, found)


def _arguments() -> argparse.Namespace:
    made = model_parser(__doc__, "bundled", 40, "documents")
    made.add_argument("--draft", help="folder of a draft model")
    made.add_argument("--heads", help="a file of draft heads, or its folder; none: those beside the model")
    made.add_argument("--repeats", type=int, default=1, help="of every way; the quickest counts")
    made.add_argument("--concurrent", type=int, default=1)
    return made.parse_args()


def _tasks(model: LoadedModel, limit: int) -> list[tuple[tuple[int, ...], CompiledGrammar]]:
    rng = random.Random(0)
    examples = [sample_example(rng, "heldout", "heldout", questions=1) for _ in range(limit)]
    vocabulary = Vocabulary.from_tokenizer(model.tokenizer)
    texts = [prompt_of(model.tokenizer, example) for example in examples]
    prompts = [model.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    return [
        (tuple(ids), compile_json_schema(example.questions[0].schema, vocabulary))
        for ids, example in zip(prompts, examples, strict=True)
    ]


async def _measure_all(model: LoadedModel, tasks: list[Any], args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    expected: dict[bool, list[tuple[int, ...]]] = {}
    ways = {name: way for name, way in WAYS.items() if _can(model, way)}
    for _ in range(args.repeats):  # one after another each time: what else runs here comes and goes
        for name, way in ways.items():
            row, answers = await _measure(model, way, tasks, args.concurrent)
            plain = expected.setdefault(way.jump, answers)
            row["same_answers"] = sum(one == other for one, other in zip(answers, plain, strict=True)) / len(answers)
            found[name] = min(found.get(name, row), row, key=lambda each: each["cpu_ms_a_token"])
    print("| guesses | accepted | tokens a step | CPU ms a token | speed |\n|---|--:|--:|--:|--:|")
    for name, row in found.items():
        row["speed"] = round(found["none"]["cpu_ms_a_token"] / row["cpu_ms_a_token"], 2)
        shown = f"{row['accepted']:.2f}" if ways[name].guesses else "-"
        numbers = f"{row['tokens_a_step']:.2f} | {row['cpu_ms_a_token']:.3f} | {row['speed']:.2f}x"
        print(f"| {name} | {shown} | {numbers} |", flush=True)
    print(f"\nanswers that guessing left as they were, least: {min(row['same_answers'] for row in found.values()):.1%}")
    return found


def _can(model: LoadedModel, way: Proposers) -> bool:
    return (model.draft is not None or not way.model) and (model.heads is not None or not way.heads)


async def _measure(
    model: LoadedModel, way: Proposers, tasks: list[Any], concurrent: int
) -> tuple[dict[str, float], list[tuple[int, ...]]]:
    settings = EngineSettings(
        jump_forward=way.jump,
        draft_tokens=6 if way.guesses else 0,
        prompt_lookup=way.lookup,
        draft_heads=way.heads,
        prefix_caching=False,
    )
    engine = Engine(settings, [replace(model, draft=model.draft if way.model else None)])
    await engine.start()
    await _all(engine, model, tasks[:4], concurrent)
    before, began = dict(engine.stats()), time.process_time()
    answers = await _all(engine, model, tasks, concurrent)
    seconds, after = time.process_time() - began, engine.stats()
    await engine.close()

    def gain(name: str) -> float:
        return after[name] - before[name]

    tokens = gain("tokens_generated_total")
    return {
        "accepted": gain("tokens_accepted_total") / max(1.0, gain("tokens_drafted_total")),
        "tokens_a_step": tokens / gain("steps_total"),
        "cpu_ms_a_token": 1000 * seconds / tokens,
    }, answers


async def _all(engine: Engine, model: LoadedModel, tasks: list[Any], concurrent: int) -> list[tuple[int, ...]]:
    gate = asyncio.Semaphore(concurrent)

    async def one(ids: tuple[int, ...], grammar: CompiledGrammar) -> tuple[int, ...]:
        sampling = Sampling(max_tokens=256, temperature=0.0)
        async with gate:
            generation = await engine.generate(Job("speculation", model.name, Prompt("", ids), sampling, grammar))
            return tuple([token async for piece in generation for token in piece.token_ids])

    return await asyncio.gather(*[one(*task) for task in tasks])


if __name__ == "__main__":
    main()
