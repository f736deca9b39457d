"""Run a checkpoint's tokenizer with the `tokenizers` library alone.

Importing a tokenizer class of `transformers` takes a second. All it contributes is the pipeline of `tokenizers`, the
special tokens and the chat template, which are stored after the first load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

from sluicegate.engine.text.chat_rendering import render

_SAMPLE = (
    'Ada paid 1,234.50 EUR on 2024-02-29 -- "naïve" café, Zürich;  two  spaces\n\n\tand a tab. 你好，世界 🙂👩‍🚀 '
    "don't we'll did n't end . ﬁ Å İ {\"a\":[1,2]} https://x.y/z?q=1 \u00a0 \u200b"
)
_CHAT = [
    {"role": "user", "content": "Hello, who is  Ada? "},
    {"role": "assistant", "content": "A mathematician."},
    {"role": "user", "content": "And 7 × 6?"},
]


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """The stored parts of a tokenizer, of JSON types. `sample`: its output for sample texts, to compare with."""

    pipeline: str
    """As written by `Tokenizer.to_str` of `tokenizers`."""
    chat_template: str | None
    special_tokens_map: dict[str, str]
    all_special_tokens: list[str]
    all_special_ids: list[int]
    eos_token_id: int | None
    pad_token_id: int | None
    sample: list[Any]


def facts_of(tokenizer: Any) -> TokenizerFacts | None:
    """Return the facts of a tokenizer of `transformers`; None if it does more than run its pipeline."""
    pipeline: Any = getattr(tokenizer, "backend_tokenizer", None)
    template = tokenizer.chat_template
    if pipeline is None or pipeline.truncation is not None or pipeline.padding is not None:
        return None
    if tokenizer.split_special_tokens or not isinstance(template, str | None):
        return None
    return TokenizerFacts(
        pipeline=pipeline.to_str(),
        chat_template=template,
        special_tokens_map={name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        all_special_tokens=[str(token) for token in tokenizer.all_special_tokens],
        all_special_ids=[int(token) for token in tokenizer.all_special_ids],
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        sample=_sample(tokenizer),
    )


class FastTokenizer:
    """The part of the `transformers` tokenizer interface that the gateway uses. Other attributes come from `whole`,
    which imports and loads the original."""

    is_fast = True
    split_special_tokens = False

    def __init__(self, facts: TokenizerFacts, whole: Callable[[], Any]) -> None:
        """Build the pipeline from stored `facts`. Raises `ValueError` if its output for the sample differs from the
        stored one."""
        self.backend_tokenizer = Tokenizer.from_str(facts.pipeline)
        self.chat_template = facts.chat_template
        self.special_tokens_map = facts.special_tokens_map
        self.all_special_tokens, self.all_special_ids = facts.all_special_tokens, facts.all_special_ids
        self.eos_token_id, self.pad_token_id = facts.eos_token_id, facts.pad_token_id
        self._make_whole = whole
        if _sample(self) != facts.sample:
            raise ValueError("its tokenizer does more than its pipeline")

    def __call__(self, text: Any, add_special_tokens: bool = True, **more: Any) -> Any:
        if not isinstance(text, str) or set(more) - {"return_offsets_mapping"}:
            return self._whole(text, add_special_tokens=add_special_tokens, **more)
        found = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens)
        offsets = {"offset_mapping": found.offsets} if more.get("return_offsets_mapping") else {}
        return {"input_ids": found.ids, "attention_mask": found.attention_mask, **offsets}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(
        self,
        token_ids: Sequence[int] | int,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool = False,
    ) -> str:
        if clean_up_tokenization_spaces:
            return str(self._whole.decode(token_ids, skip_special_tokens, clean_up_tokenization_spaces=True))
        ids = [token_ids] if isinstance(token_ids, int) else [int(token) for token in token_ids]
        return str(self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def get_vocab(self) -> dict[str, int]:
        found: dict[str, int] = self.backend_tokenizer.get_vocab(with_added_tokens=True)
        return found

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size(with_added_tokens=True))

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        found: dict[int, Any] = self.backend_tokenizer.get_added_tokens_decoder()
        return found

    def get_added_vocab(self) -> dict[str, int]:
        return {token.content: number for number, token in self.added_tokens_decoder.items()}

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        if isinstance(ids, int):
            return self.backend_tokenizer.id_to_token(ids)
        return [self.backend_tokenizer.id_to_token(int(token)) for token in ids]

    def apply_chat_template(self, conversation: list[dict[str, Any]], tokenize: bool = True, **asked: Any) -> Any:
        """Render a conversation with the checkpoint's chat template. Raises what `render` raises."""
        if tokenize or not self.chat_template or "chat_template" in asked:
            return self._whole.apply_chat_template(conversation, tokenize=tokenize, **asked)
        return render(self.chat_template, conversation, **{**self.special_tokens_map, **asked})

    @cached_property
    def _whole(self) -> Any:
        return self._make_whole()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of protocols that ask whether there is a method
            raise AttributeError(name)
        return getattr(self._whole, name)


def _sample(tokenizer: Any) -> list[Any]:
    """Return a tokenizer's output for a sample text and chat, of JSON types."""
    special, plain = (list(tokenizer.encode(_SAMPLE, add_special_tokens=given)) for given in (True, False))
    marked = " and ".join(tokenizer.all_special_tokens)
    marks = list(tokenizer.encode(marked, add_special_tokens=False))
    texts = [tokenizer.decode([*plain, *marks], skip_special_tokens=skip) for skip in (True, False)]
    return [special, plain, marks, *texts, _shown(tokenizer)]


def _shown(tokenizer: Any) -> list[str]:
    if not tokenizer.chat_template or "strftime_now" in tokenizer.chat_template:  # another text tomorrow
        return []
    try:
        return [
            tokenizer.apply_chat_template(_CHAT, tokenize=False, add_generation_prompt=True),
            tokenizer.apply_chat_template(_CHAT[:2], tokenize=False, continue_final_message=True),
        ]
    except Exception as error:  # templates raise what they like: here it matters that both do
        return [type(error).__name__]
