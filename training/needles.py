"""Train a small model that finds needles in long texts, so that accuracy over length has something to show.

    python -m training.needles build/needles && sluicegate serve --model build/needles
    python -m benchmarks.long_context --lengths 64,128,256,512,1024 --limit 8 --trained-to 256

It is asked to look up what a text says of a name, and to join two or three facts, in the wording of
`benchmarks.long_context`: names, values and filler are drawn anew for every text. Texts grow while it learns, up to
`LONGEST` tokens, and every text is asked about all of its facts, so that each gives dozens of answers to learn from.
A fixture and no model for anything else; its weights are not shipped. With the budget that is the default it learns to
find and copy such facts at any length, and not yet whose they are (benchmarks/README.md).
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.long_context import (
    COLOURS,
    FLOORS,
    KINDS,
    OBJECTS,
    PEOPLE,
    SUBJECTS,
    TOKENS_A_SENTENCE,
    VERBS,
    WHEN,
    case_of,
    filler,
)
from training.forward import answer_places, packed_loss
from training.model import build_model, export
from training.muon import Muon
from training.packing import Batch, Row, batch_of

CONTEXT = 2048
PAD, END = "<|pad|>", "<|end|>"
TEMPLATE = (
    "{% set unused = schema_sketch %}"
    "{% for message in messages %}{% if message.role == 'user' %}{{ message.content }}\n{% endif %}{% endfor %}"
)
"""The question is the prompt's end, and the schema is not shown: its words are none of the model's."""
PIECES = r" ?[A-Za-z]+|\d{2}|."
SAID = "The access code of is What keeps the key in locker stands room In which Room on floor On answer Which"
"""The words of facts and questions."""
STAGES = ((0.6, 72), (0.2, 128), (0.2, 256))
"""(share of the budget, tokens of a text at most)."""
LONGEST = STAGES[-1][1]
TOKENS_A_STEP = 4096
TOLD_EVERY, CHECKED = 100, 20
CLOSING, EASY = '"}', 0.1
"""What ends every answer, and how much of a value's token it weighs."""
ASKED = 192
"""Room behind a text for its questions, in tokens."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cpu-seconds", type=float, default=850.0, help="budget of training")
    parser.add_argument("--steps", type=int, default=10**9, help="stop after so many, whatever is left")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    parsed = parser.parse_args(arguments)
    make_model(parsed)


def make_model(options: argparse.Namespace) -> Path:
    """Train, and write a checkpoint that `--model` can name; returns its folder."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = build_model(tokenizer, options.width, options.layers, max(1, options.width // 32), CONTEXT)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    train(model, tokenizer, options)
    export(model, folder)
    return folder


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer in which a word of the cases, two digits and a mark are a token each; any other text is
    bytes."""
    said = " ".join((*SUBJECTS, *VERBS, *OBJECTS, *WHEN, *PEOPLE, *COLOURS, *FLOORS, SAID)).split()
    words = sorted({f"{before}{word}" for word in said for before in ("Ġ", "")}) + [f"{n:02d}" for n in range(100)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: at for at, text in enumerate(dict.fromkeys([PAD, END, *alphabet, *words]))}
    merges, seen = [], set(alphabet)
    for word in words:
        for cut in range(1, len(word)):
            pair, made = (word[:cut], word[cut]), word[: cut + 1]
            if made not in seen:
                seen.add(made)
                vocabulary.setdefault(made, len(vocabulary))
                merges.append(pair)
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    made_of = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, pad_token=PAD)
    made_of.chat_template = TEMPLATE
    return made_of


# --- texts --------------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """Facts of one text, and all that can be asked about them: (question, answer)."""

    facts: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def code(self, who: str, code: str) -> None:
        self.facts.append(f"The access code of {who} is {code}.")
        self.asked.append((f"What is the access code of {who}?", code))

    def key(self, who: str, locker: str, room: str, floor: str) -> None:
        self.facts.append(f"{who} keeps the key in the {locker} locker.")
        self.facts.append(f"The {locker} locker stands in room {room}.")
        self.asked.append((f"Which locker keeps the key of {who}?", locker))
        self.asked.append((f"In which room is the {locker} locker?", room))
        self.asked.append((f"In which room is the key of {who}?", room))
        if floor:
            self.facts.append(f"Room {room} is on the {floor} floor.")
            self.asked.append((f"On which floor is room {room}?", floor))
            self.asked.append((f"On which floor is the {locker} locker?", floor))
            self.asked.append((f"On which floor is the key of {who}?", floor))


def told(rng: random.Random, facts: int) -> Told:
    """Tell about so many facts: codes of some people, and where the keys of others are."""
    found = Told()
    lockers, rooms = rng.sample(COLOURS, len(COLOURS)), rng.sample(range(11, 99), len(COLOURS))
    floors = rng.random() < 0.6
    for at, who in enumerate(rng.sample(PEOPLE, len(PEOPLE))):
        if len(found.facts) >= facts:
            break
        if rng.random() < 0.6:
            found.code(who, str(rng.randrange(1000, 10_000)))
        else:
            found.key(who, lockers[at], str(rooms[at]), rng.choice(FLOORS) if floors else "")
    return found


def row_of(tokenizer: PreTrainedTokenizerFast, rng: random.Random, tokens: int) -> Row:
    """Fill a row with a text of at most so many tokens and as many of its questions as fit behind, and so on until
    nothing fits."""
    row = Row(tokens + ASKED)
    fits = True
    while fits:
        facts = told(rng, rng.randint(2, 5))
        sentences = [*facts.facts, *(filler(rng) for _ in range(rng.randint(0, tokens // 12 - 5)))]
        rng.shuffle(sentences)
        text = ids_of(tokenizer, " ".join(sentences))
        ends = [
            (
                ids_of(tokenizer, f'\n\n{question}\n{{"answer":"'),
                [*ids_of(tokenizer, f"{answer}{CLOSING}"), tokenizer.eos_token_id],
            )
            for question, answer in facts.asked
        ]
        rng.shuffle(ends)
        fits = any(row.add(text, ends[:count]) for count in range(len(ends), 1, -1))
    return row


def ids_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def batch_at(tokenizer: PreTrainedTokenizerFast, seed: int, tokens: int, step: int) -> Batch:
    """Return the texts of a step; the same for the same arguments."""
    rng = random.Random(f"{seed} {step}")
    rows = max(1, TOKENS_A_STEP // (tokens + ASKED))
    batch = batch_of([row_of(tokenizer, rng, tokens) for _ in range(rows)], tokenizer.pad_token_id)
    closing = torch.tensor([*ids_of(tokenizer, CLOSING), tokenizer.eos_token_id])
    return replace(batch, weights=torch.where(torch.isin(batch.targets, closing), EASY, 1.0))


# --- training -----------------------------------------------------------------------------------------------------


def train(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> None:
    """Train until the budget is spent. The checkpoint of every 100th step can be served already."""
    optimizers = optimizers_of(model)
    loss_of = packed_loss if options.no_compile else torch.compile(packed_loss, dynamic=False)
    began, step, spent = time.process_time(), 0, 0.0
    while spent < options.cpu_seconds and step < options.steps:
        share = spent / options.cpu_seconds
        batch = batch_at(tokenizer, options.seed, stage(share), step)
        loss = loss_of(model, batch.ids, batch.positions, batch.mask, *answer_places(batch))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update(optimizers, min(1.0, (step + 1) / 50, (1 - share) / 0.3 + 0.01))
        step += 1
        spent = time.process_time() - began
        if step % TOLD_EVERY == 0:
            export(model, options.folder)
            said = f"step {step:5} {spent:5.0f} s of CPU  {stage(share):4} tokens  loss {loss.item():.3f}"
            print(f"{said}  {told_scores(model, tokenizer, stage(share), step)}", flush=True)


def optimizers_of(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Make the optimizers. Each group keeps the highest rate it gets."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in name]
    others = [p for name, p in model.named_parameters() if not (p.ndim == 2 and ".layers." in name)]
    made = [Muon(matrices, lr=0.01), torch.optim.AdamW(others, lr=4e-3, betas=(0.9, 0.98), weight_decay=0.0)]
    for group in (group for optimizer in made for group in optimizer.param_groups):
        group["peak_lr"] = group["lr"]
    return made


def update(optimizers: list[torch.optim.Optimizer], factor: float) -> None:
    """Take one step at `factor` of the highest rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def stage(share: float) -> int:
    """Return how many tokens a text has when so much of the budget is spent."""
    for part, tokens in STAGES:
        share -= part
        if share < 0:
            return tokens
    return LONGEST


def told_scores(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, tokens: int, seed: int) -> str:
    found = (f"{kind} {score(model, tokenizer, kind, tokens, seed):.0%}" for kind in KINDS)
    return "  ".join(found)


@torch.no_grad()
def score(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, kind: str, tokens: int, seed: int) -> float:
    """Return the share of cases, new ones for each seed, whose answer the model would write."""
    right = 0
    for number in range(CHECKED):
        case = case_of(kind, tokens, 0.5, random.Random(f"{seed} {number}"), TOKENS_A_SENTENCE)
        asked = ids_of(tokenizer, f'{case.messages[0]["content"]}\n{{"answer":"')
        answer = ids_of(tokenizer, f'{case.expected["answer"]}"')
        guessed = model(torch.tensor([asked + answer])).logits[0, -len(answer) - 1 : -1].argmax(-1)
        right += guessed.tolist() == answer
    return right / CHECKED


if __name__ == "__main__":
    main()
