"""Fields that say how tokens are drawn, and when an answer ends."""

from __future__ import annotations

from typing import Any, Literal

from sluicegate.gateway.fields.row import SamplingRow, says
from sluicegate.plugins import RepetitionDetection

MAX_CHOICES = 16
MAX_SEED = 2**63 - 1
MAX_STOP_TOKENS = 64
EVERY = ("every",)
SAMPLERS = ("vllm", "sglang", "tensorrt-llm")
SAMPLERS_AND_LLAMA = (*SAMPLERS, "llama.cpp")
"""Other servers that have this field under this name and with this meaning."""
OPENAI = "chat completions"
"""Dialects that also take the additions of vLLM and SGLang."""


def _list(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _repetition(value: Any) -> RepetitionDetection | None:
    """Return when to stop repetitions; None where nothing is given. A pattern of no tokens switches it off, as in
    vLLM."""
    if not value.model_fields_set:
        return None
    return RepetitionDetection(value.max_pattern_size, value.min_count, value.min_pattern_size or 1)


SAMPLING: tuple[SamplingRow, ...] = (
    SamplingRow(
        "max_tokens", "The most tokens that the answer may have, thoughts and calls of tools included.",
        says("chat completions messages", otherwise="refused"),
        attribute="max_tokens", type=int, bounds={"ge": 1}, upstream=EVERY,
    ),
    SamplingRow(
        "max_completion_tokens", "The newer name of `max_tokens`; both only where they say the same.",
        says("chat", otherwise="refused"), attribute="max_tokens", type=int, bounds={"ge": 1},
    ),
    SamplingRow(
        "max_output_tokens", "The most tokens that the answer may have, thoughts and calls of tools included.",
        says("responses", otherwise="refused"), attribute="max_tokens", type=int, bounds={"ge": 1},
    ),
    SamplingRow(
        "min_tokens", "Fewer tokens than these do not end the answer; at most `max_tokens`.",
        says(OPENAI, otherwise="refused"), neutral=(0,), by="vLLM",
        attribute="min_tokens", type=int, bounds={"ge": 0}, upstream=SAMPLERS,
    ),
    SamplingRow(
        "temperature", "How evenly tokens are drawn; 0 takes the likeliest. The model's own where it is left out.",
        says("chat completions responses messages", otherwise="refused"), neutral=(1,),
        attribute="temperature", type=float, bounds={"ge": 0, "le": 2}, upstream=EVERY,
    ),
    SamplingRow(
        "top_p", "Draw from the likeliest tokens that together have this share.",
        says("chat completions responses messages", otherwise="refused"), neutral=(1,),
        attribute="top_p", type=float, bounds={"gt": 0, "le": 1}, upstream=EVERY,
    ),
    SamplingRow(
        "top_k", "Draw from so many of the likeliest tokens; 0 and -1 are all.",
        says("chat completions messages", otherwise="refused"), neutral=(0, -1), by="vLLM",
        attribute="top_k", type=int, bounds={"ge": -1}, fact=lambda k: max(k, 0), upstream=SAMPLERS_AND_LLAMA,
    ),
    SamplingRow(
        "min_p", "Draw from tokens at least this likely, measured by the likeliest.",
        says(OPENAI, otherwise="refused"), neutral=(0,), by="vLLM",
        attribute="min_p", type=float, bounds={"ge": 0, "le": 1}, upstream=SAMPLERS_AND_LLAMA,
    ),
    SamplingRow(
        "typical_p", "Draw from the tokens of this share whose surprise is nearest to the expected.",
        says(OPENAI, otherwise="refused"), neutral=(1,), by="Sluicegate",
        attribute="typical_p", type=float, bounds={"gt": 0, "le": 1}, upstream=(),
    ),
    SamplingRow(
        "repetition_penalty", "Divides the scores of tokens that were there already, prompt included.",
        says(OPENAI, otherwise="refused"), neutral=(1,), by="vLLM",
        attribute="repetition_penalty", type=float, bounds={"ge": 0.01, "le": 100}, upstream=SAMPLERS,
    ),
    SamplingRow(
        "frequency_penalty", "Taken from a token's score for each time that the answer has it already.",
        says(OPENAI, otherwise="refused"), neutral=(0,),
        attribute="frequency_penalty", type=float, bounds={"ge": -2, "le": 2}, upstream=EVERY,
    ),
    SamplingRow(
        "presence_penalty", "Taken once from the score of a token that the answer has already.",
        says(OPENAI, otherwise="refused"), neutral=(0,),
        attribute="presence_penalty", type=float, bounds={"ge": -2, "le": 2}, upstream=EVERY,
    ),
    SamplingRow(
        "seed", "The same seed draws the same answer from the same version of a model.",
        says("chat completions messages", otherwise="refused"),
        attribute="seed", type=int, bounds={"ge": -MAX_SEED - 1, "le": MAX_SEED}, upstream=EVERY,
    ),
    SamplingRow(
        "random_seed", "Mistral's name of `seed`; both only where they say the same.",
        says("chat", otherwise="refused"), by="Mistral",
        attribute="seed", type=int, bounds={"ge": -MAX_SEED - 1, "le": MAX_SEED},
    ),
    SamplingRow(
        "stop", "Strings that end the answer and are no part of it. Beside tools and thoughts they are looked for in "
        "the text of the answer; beside a constraint they are refused.",
        says(OPENAI, otherwise="refused"), neutral=([],),
        attribute="stop", fact=_list, upstream=EVERY, sent=lambda stop: {"stop": list(stop)},
    ),
    SamplingRow(
        "stop_sequences", "Strings that end the answer and are no part of it.",
        says("messages", otherwise="refused"), neutral=([],), by="Anthropic", attribute="stop", fact=_list,
    ),
    SamplingRow(
        "stop_token_ids", "Tokens that end the answer and are no part of it.",
        says(OPENAI, otherwise="refused"), neutral=([],), by="vLLM",
        attribute="stop_token_ids", type=list[int], bounds={"max_length": MAX_STOP_TOKENS}, fact=tuple,
        upstream=SAMPLERS, sent=lambda ids: {"stop_token_ids": list(ids)},
    ),
    SamplingRow(
        "include_stop_str_in_output", "The stop string that ended the answer stays at its end.",
        says(OPENAI, otherwise="refused"), neutral=(False,), by="vLLM",
        attribute="include_stop_str_in_output", type=bool, upstream=("vllm", "tensorrt-llm"),
    ),
    SamplingRow(
        "no_stop_trim", "SGLang's name of `include_stop_str_in_output`.",
        says(OPENAI, otherwise="refused"), neutral=(False,), by="SGLang",
        attribute="include_stop_str_in_output", type=bool,
    ),
    SamplingRow(
        "repetition_detection", "Ends an answer whose newest tokens are one pattern again and again: "
        "`max_pattern_size` (0 = never), `min_count`, `min_pattern_size`. Where it is left out, a constrained answer "
        "ends as the engine is set.",
        says(OPENAI, otherwise="refused"), neutral=({},), by="vLLM",
        attribute="repetition_detection", fact=_repetition, upstream=("vllm",),
        sent=lambda one: {"repetition_detection": {
            "max_pattern_size": one.max_pattern_size, "min_pattern_size": one.min_pattern_size,
            "min_count": one.min_count,
        }},
    ),
    SamplingRow(
        "ignore_eos", "An end-of-sequence token does not end the answer.",
        says(OPENAI, otherwise="refused"), neutral=(False,), by="vLLM",
        attribute="ignore_eos", type=bool, upstream=SAMPLERS_AND_LLAMA,
    ),
    SamplingRow(
        "bad_words", "Words that the answer never holds, as the tokenizer spells them.",
        says(OPENAI, otherwise="refused"), neutral=([],), by="vLLM",
        attribute="bad_words", type=list[str], bounds={"max_length": 128}, fact=tuple, upstream=(),
    ),
    SamplingRow(
        "logit_bias", "Added to the scores of tokens, by id.",
        says(OPENAI, otherwise="refused"), neutral=({},),
        attribute="logit_bias", upstream=EVERY,
        sent=lambda bias: {"logit_bias": {str(token): value for token, value in bias.items()}},
    ),
    SamplingRow(
        "logprobs", "The log probabilities of the answer's tokens: in chat `true`, in completions the number of "
        "likeliest tokens to tell beside each.",
        says(OPENAI, otherwise="refused"), neutral=(False,),
        attribute="logprobs", by_hand=True, upstream=EVERY, sent=lambda k: {"logprobs": True, "top_logprobs": k},
    ),
    SamplingRow(
        "top_logprobs", "How many of the likeliest tokens to tell beside each; in chat it needs `logprobs: true`.",
        says("chat responses", otherwise="refused"), neutral=(0,), attribute="logprobs", by_hand=True,
    ),
    SamplingRow(
        "best_of", "Draw so many choices and answer the `n` likeliest; with beam search, the number of beams.",
        says(OPENAI, otherwise="refused"), neutral=(1,),
        attribute="best_of", type=int, bounds={"ge": 1, "le": MAX_CHOICES}, upstream=(),
    ),
    SamplingRow(
        "use_beam_search", "Search for the likeliest answer instead of drawing one.",
        says(OPENAI, otherwise="refused"), neutral=(False,), by="vLLM",
        attribute="use_beam_search", type=bool, upstream=(),
    ),
    SamplingRow(
        "length_penalty", "Beams are ranked by their log probability over length to this power.",
        says(OPENAI, otherwise="refused"), neutral=(1,), by="vLLM",
        attribute="length_penalty", type=float, needs="use_beam_search", upstream=(),
    ),
    SamplingRow(
        "early_stopping", "When a beam search ends: with enough finished beams, or `never` before a better one is "
        "impossible.",
        says(OPENAI, otherwise="refused"), neutral=(False,), by="transformers",
        attribute="early_stopping", type=bool | Literal["never"], needs="use_beam_search", upstream=(),
    ),
    SamplingRow(
        "num_beam_groups", "Beams are searched in so many groups that avoid each other's tokens.",
        says(OPENAI, otherwise="refused"), neutral=(1,), by="transformers",
        attribute="beam_groups", type=int, bounds={"ge": 1}, needs="use_beam_search", upstream=(),
    ),
    SamplingRow(
        "diversity_penalty", "Taken from a token's score for each group before that chose it.",
        says(OPENAI, otherwise="refused"), neutral=(0,), by="transformers",
        attribute="diversity_penalty", type=float, bounds={"ge": 0}, needs="use_beam_search", upstream=(),
    ),
    SamplingRow(
        "sluicegate.on_length", "`close`: a constrained answer that runs out of tokens is brought to its shortest "
        "valid end.",
        says("chat completions responses messages"), neutral=("stop",), by="Sluicegate",
        attribute="close_on_length", by_hand=True, upstream=(),
    ),
)  # fmt: skip
