"""Validate and resolve a request's sampling parameters, once, at submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from sluicegate.plugins import Job, RequestError, Sampling

GREEDY_BELOW = 1e-5
"""Temperatures below this choose the likeliest token: dividing by them overflows before it sharpens anything more."""
MAX_LOGPROBS = 100
MAX_STOPS = 64
MAX_BAD_WORDS = 128
MAX_CHOICES = 128
MAX_STOP_TOKENS = 128
MAX_PATTERN = 1_024
OFF: Mapping[str, float] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Neutral values of the attributes that a model's own configuration may set."""


@dataclass(frozen=True, slots=True)
class Bias:
    columns: Tensor
    """int64 [K]."""
    values: Tensor
    """float32 [K]."""


@dataclass(frozen=True, slots=True)
class DrawRule:
    """The validated sampling parameters of one sequence."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    typical: float = 1.0
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of token ids that may not occur."""
    bias: Bias | None = None
    logprobs: int | None = None
    numbers: tuple[float, float, float, float] = field(init=False)
    """(temperature, top_k, top_p, min_p), temperature 0 = greedy. Needed in every step, so computed once."""
    is_plain: bool = field(init=False)
    """Whether tokens are drawn from the logits unchanged except for a mask."""

    def __post_init__(self) -> None:
        numbers = (0.0 if self.greedy else self.temperature, self.top_k, self.top_p, self.min_p)
        changes = self.penalises or self.typical < 1.0 or bool(self.bad_words) or self.bias is not None
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "is_plain", not changes)

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW

    @property
    def is_cut(self) -> bool:
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0

    @property
    def penalises(self) -> bool:
        return self.repetition != 1.0 or self.frequency != 0.0 or self.presence != 0.0


def draw_rule(
    sampling: Sampling,
    *,
    default_temperature: float,
    vocab_size: int,
    defaults: Mapping[str, float] = MappingProxyType({}),
    spell: Callable[[str], list[int]] | None = None,
) -> DrawRule:
    """Resolve sampling parameters. `defaults`: the model's, by attribute, for parameters the request leaves out;
    `spell`: returns a text's token ids, for bad words. Raises `RequestError` naming the parameter, its value and the
    allowed range."""
    temperature = default_temperature if sampling.temperature is None else sampling.temperature
    _check("temperature", temperature, 0.0 <= temperature < float("inf"), "a number >= 0")
    own = {name: _requested_or_default(sampling, defaults, name) for name in OFF}
    top_k, top_p, min_p, repetition = own.values()
    _check("top_k", top_k, top_k >= 0, "an integer >= 0 (0 = off)")
    _check("top_p", top_p, 0.0 <= top_p <= 1.0, "a number between 0 and 1")
    _check("min_p", min_p, 0.0 <= min_p <= 1.0, "a number between 0 and 1")
    _check("repetition_penalty", repetition, 0.0 < repetition < float("inf"), "a number > 0 (1 = off)")
    _check("frequency_penalty", sampling.frequency_penalty, abs(sampling.frequency_penalty) <= 2, "between -2 and 2")
    _check("presence_penalty", sampling.presence_penalty, abs(sampling.presence_penalty) <= 2, "between -2 and 2")
    _check("stop", len(sampling.stop), len(sampling.stop) <= MAX_STOPS, f"at most {MAX_STOPS} stop strings")
    _check("typical_p", sampling.typical_p, 0.0 < sampling.typical_p <= 1.0, "a number above 0, up to 1 (1 = off)")
    _check_lengths(sampling)
    _check_ends(sampling, vocab_size)
    return DrawRule(
        temperature=temperature,
        top_k=int(top_k),
        top_p=top_p,
        min_p=min_p,
        repetition=repetition,
        frequency=sampling.frequency_penalty,
        presence=sampling.presence_penalty,
        typical=sampling.typical_p,
        bad_words=_bad_words(sampling, spell),
        bias=_bias(sampling, vocab_size),
        logprobs=None if sampling.logprobs is None else min(sampling.logprobs, vocab_size),
    )


def _requested_or_default(sampling: Sampling, defaults: Mapping[str, float], name: str) -> float:
    """Return the request's value, else the model's default, else the neutral value."""
    asked: float | None = getattr(sampling, name)
    return defaults.get(name, OFF[name]) if asked is None else asked


def beam_count(job: Job) -> int:
    """Return the number of beams; 0 = no beam search."""
    return (job.sampling.best_of or job.n) if job.sampling.use_beam_search else 0


def check_choices(job: Job) -> None:
    """Check that `n`, beams and beam groups fit together. Raises `RequestError`."""
    asked, n = job.sampling, job.n
    _check("n", n, 1 <= n <= MAX_CHOICES, f"an integer between 1 and {MAX_CHOICES}")
    if asked.best_of is not None:
        _check("best_of", asked.best_of, n <= asked.best_of <= MAX_CHOICES, f"an integer from n ({n}) to {MAX_CHOICES}")
    if not asked.use_beam_search:
        _check("beam_groups", asked.beam_groups, asked.beam_groups == 1, "1, where `use_beam_search` is off")
        return
    beams, groups = asked.best_of or n, asked.beam_groups
    _check("beam_groups", groups, groups >= 1 and beams % groups == 0, f"a divisor of the number of beams ({beams})")
    _check("close_on_length", asked.close_on_length, not asked.close_on_length, "off with beam search")
    _check("diversity_penalty", asked.diversity_penalty, asked.diversity_penalty >= 0, "a number >= 0")
    _check("length_penalty", asked.length_penalty, abs(asked.length_penalty) <= 10, "a number between -10 and 10")
    _check("early_stopping", asked.early_stopping, asked.early_stopping in (True, False, "never"), "a bool or 'never'")


def _check_ends(sampling: Sampling, vocab_size: int) -> None:
    ids, asked, alone = sampling.stop_token_ids, sampling.repetition_detection, not sampling.use_beam_search
    _check("stop_token_ids", len(ids), len(ids) <= MAX_STOP_TOKENS, f"at most {MAX_STOP_TOKENS} tokens")
    for token in ids:
        _check("stop_token_ids", token, 0 <= token < vocab_size, f"token ids between 0 and {vocab_size - 1}")
    _check("stop_token_ids", list(ids), not ids or alone, "none with beam search")
    if asked is None or not asked.max_pattern_size:
        return
    _check("repetition_detection", "on", alone, "off with beam search")
    low, high, count = asked.min_pattern_size, asked.max_pattern_size, asked.min_count
    name = "repetition_detection"
    _check(f"{name}.max_pattern_size", high, 0 < high <= MAX_PATTERN, f"an integer from 0 (off) to {MAX_PATTERN}")
    _check(f"{name}.min_pattern_size", low, 0 <= low <= high, f"an integer from 0 to max_pattern_size ({high})")
    _check(f"{name}.min_count", count, count >= 2, "an integer >= 2")


def _check_lengths(sampling: Sampling) -> None:
    if sampling.max_tokens is not None:
        _check("max_tokens", sampling.max_tokens, sampling.max_tokens >= 1, "an integer >= 1, or none for no limit")
    _check("min_tokens", sampling.min_tokens, sampling.min_tokens >= 0, "an integer >= 0")
    if sampling.logprobs is not None:
        ok = 0 <= sampling.logprobs <= MAX_LOGPROBS
        _check("logprobs", sampling.logprobs, ok, f"an integer between 0 and {MAX_LOGPROBS}")


def _bias(sampling: Sampling, vocab_size: int) -> Bias | None:
    if not sampling.logit_bias:
        return None
    for token, value in sampling.logit_bias.items():
        _check("logit_bias", token, 0 <= token < vocab_size, f"token ids between 0 and {vocab_size - 1}")
        _check("logit_bias", value, abs(value) <= 100, "values between -100 and 100")
    columns = torch.tensor(list(sampling.logit_bias.keys()), dtype=torch.int64)
    return Bias(columns, torch.tensor(list(sampling.logit_bias.values()), dtype=torch.float32))


def _bad_words(sampling: Sampling, spell: Callable[[str], list[int]] | None) -> tuple[tuple[int, ...], ...]:
    words = sampling.bad_words
    _check("bad_words", len(words), len(words) <= MAX_BAD_WORDS, f"at most {MAX_BAD_WORDS} words")
    found: list[tuple[int, ...]] = []
    for word in words:
        _check("bad_words", repr(word), bool(word.strip()), "words that are not empty")
        assert spell is not None
        found += [tuple(spell(text)) for text in (word.lstrip(), " " + word.lstrip())]
    return tuple(dict.fromkeys(found))


def _check(param: str, found: object, ok: bool, expected: str) -> None:
    if not ok:
        raise RequestError(f"{param} is {found}; expected {expected}", param=param)
