"""Trains the bundled model's tokenizer: byte-level BPE over pieces that make copying easy."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from sluicegate.engine.text.prompt import schema_sketch
from training.examples import sample_example

SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|schema|>")
# Runs of JSON punctuation stay whole (a short answer has few steps); words split at camelCase; digits and blanks are
# single, so that a number or a name reads the same in the document and in the answer.
_PIECES = (
    r'"\}\]|\}\]|"\],"|","|":"|":\{"|":\["|":|\{"|"\}|"\]|,"'
    r"|\p{Lu}?[\p{Ll}\p{Lo}\p{Lm}\p{M}]+|\p{Lu}+(?!\p{Ll})|\p{Lu}|\p{N}|\s|[^\p{L}\p{N}\s]"
)


def corpus(documents: int, seed: int) -> Iterator[str]:
    rng = random.Random(f"tokenizer-{seed}")
    for _ in range(documents):
        example = sample_example(rng, questions=2)
        yield from (message["content"] for message in example.messages)
        for question in example.questions:
            yield schema_sketch(question.schema)
            yield question.answer


def train_tokenizer(vocabulary_size: int, documents: int = 6000, seed: int = 1) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=12,
    )
    tokenizer.train_from_iterator(corpus(documents, seed), trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path, context: int) -> None:
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "pad_token": "<|pad|>",
        "eos_token": "<|end|>",
        "additional_special_tokens": list(SPECIAL_TOKENS[2:]),
        "model_input_names": ["input_ids", "attention_mask"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("engine/bundled"))
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--context", type=int, default=1024)
    options = parser.parse_args()
    save(train_tokenizer(options.size), options.out, options.context)


if __name__ == "__main__":
    main()
