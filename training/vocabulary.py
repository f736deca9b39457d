"""Gives a tokenizer whole words, and a model their rows: `python -m training.vocabulary --init FOLDER --out FOLDER`.
With `--pieces 1024` it makes a tokenizer from nothing, for weights that are trained from nothing.

Names stay in pieces, which is what copies them; a word whose meaning decides an answer ("refund", "furious",
"positive") becomes one token, so that its meaning is looked up rather than put together out of four pieces.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from sluicegate.engine.text.prompt import schema_sketch
from training.mix import sample_mixed
from training.model import export
from training.packing import LENGTHS
from training.tables import words
from training.tokenizer import save, train_tokenizer

BUNDLED = Path(__file__).resolve().parent.parent / "engine" / "bundled"
DRAWN, OFTEN = 40_000, 8  # examples that are looked at, and in how many of them a word stands at least
MOST = 8150  # words of a tokenizer made from nothing
_NAMES = ("first", "last", "city", "country")


def corpus(examples: int, seed: int = 1) -> Iterator[list[str]]:
    """Yield the texts of each of so many examples of the mixture, answers included."""
    rng = random.Random(f"vocabulary-{seed}")
    for _ in range(examples):
        example = sample_mixed(rng, questions=2, max_facts=9)
        sketches = [schema_sketch(question.schema) for question in example.questions if not example.schemaless]
        answers = [question.answer for question in example.questions]
        yield [*(message["content"] for message in example.messages), *sketches, *answers]


def whole_words(tokenizer: Tokenizer, texts: Iterable[list[str]], often: int = OFTEN) -> list[str]:
    """Return the words of `texts` that are no names and now stand in several pieces, the most frequent first.

    A word with a capital is taken where it is taken without; what only ever has a capital is a name.
    """
    counts = Counter(word for example in texts for word in _words(tokenizer, example))
    names = {part.lower() for kind in _NAMES for name in words(kind) for part in name.replace("-", " ").split()}
    plain = {word for word, many in counts.items() if many >= often and word.islower() and word not in names}
    ranked = sorted((word for word, many in counts.items() if many >= often), key=lambda word: (-counts[word], word))
    wanted = [word for word in ranked if word in plain or (word[1:].islower() and word.lower() in plain)]
    return [word for word in wanted if len(tokenizer.encode(word, add_special_tokens=False).ids) > 1]


def _words(tokenizer: Tokenizer, texts: list[str]) -> set[str]:
    split = tokenizer.pre_tokenizer[0]  # before bytes take the place of letters
    pieces = (piece for text in texts for piece, _ in split.pre_tokenize_str(text))
    return {piece for piece in pieces if len(piece) > 2 and piece.isalpha()}


def with_words(tokenizer: Tokenizer, added: Iterable[str]) -> Tokenizer:
    """Return a tokenizer that takes these words whole, under ids after all others."""
    described = json.loads(tokenizer.to_str())
    vocabulary: dict[str, int] = described["model"]["vocab"]
    ids = dict(vocabulary)
    for word in added:
        spelled = "".join(tokenizer.encode(word, add_special_tokens=False).tokens)
        ids.setdefault(spelled, len(ids))
    described["model"] |= {"vocab": ids, "ignore_merges": True}
    return Tokenizer.from_str(json.dumps(described))


def widened(model: LlamaForCausalLM, before: Tokenizer, after: Tokenizer) -> LlamaForCausalLM:
    """Return the model with a row for every added token: the mean of those of its pieces, as long as theirs are."""
    table = model.model.embed_tokens.weight.detach().clone()
    added = range(before.get_vocab_size(), after.get_vocab_size())
    pieces = [before.encode(after.decode([token]), add_special_tokens=False).ids for token in added]
    model.resize_token_embeddings(after.get_vocab_size(), mean_resizing=False)
    if pieces:
        means = torch.stack([table[ids].mean(0) for ids in pieces])
        length = table.norm(dim=1).mean()
        model.model.embed_tokens.weight.data[len(table) :] = means * (length / means.norm(dim=1, keepdim=True))
    return model


def from_nothing(pieces: int, folder: Path, most: int = MOST, examples: int = DRAWN) -> Tokenizer:
    """Make a tokenizer of so many pieces and the most frequent words of the mixture; write it and the bundled template
    to `folder`, unless a template is there."""
    tokenizer = train_tokenizer(pieces)
    tokenizer = with_words(tokenizer, whole_words(tokenizer, corpus(examples), often=4)[:most])
    folder.mkdir(parents=True, exist_ok=True)
    save(tokenizer, folder, LENGTHS[-1])
    if not (folder / "chat_template.jinja").exists():
        shutil.copy(BUNDLED / "chat_template.jinja", folder)
    return tokenizer


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", type=Path, default=BUNDLED)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=DRAWN)
    parser.add_argument("--often", type=int, default=OFTEN)
    parser.add_argument("--pieces", type=int, help="make a tokenizer from nothing, with so many pieces of words")
    parser.add_argument("--most", type=int, default=MOST, help="whole words, then")
    options = parser.parse_args(arguments)
    if options.pieces:
        made = from_nothing(options.pieces, options.out, options.most, options.examples)
        print(f"{made.get_vocab_size()} tokens")
        return
    before = AutoTokenizer.from_pretrained(options.init).backend_tokenizer
    after = with_words(before, whole_words(before, corpus(options.examples), options.often))
    model = AutoModelForCausalLM.from_pretrained(options.init, dtype=torch.float32)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(options.init / name, options.out)
    after.save(str(options.out / "tokenizer.json"))
    export(widened(model, before, after), options.out)
    print(f"{after.get_vocab_size()} tokens, {after.get_vocab_size() - before.get_vocab_size()} of them added words")


if __name__ == "__main__":
    main()
