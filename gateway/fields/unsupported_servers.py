"""Fields of vLLM's and SGLang's servers that nothing here acts on, and the reasons that such rows give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sluicegate.gateway.fields.row import Row, says

NOT_STORED = "responses are not stored here; send the whole conversation"
WAITED = "a response is made while its caller waits; use /v1/batches"
TEXT_ONLY = "only text is read and written here"
NO_TOKENS = "a prompt is text here, which the input rails can read; send its text"
NO_ADAPTER = "models are chosen by `model`, adapters too"
NO_CODE = "the gateway runs no code of its callers"
NOT_TOLD = "the answer would say nothing of it"
PLACING = "where and when a request runs is decided here, and changes no answer"
TRACKING = "a name for the caller's own records"
SAVING = "prefixes are reused by themselves, for each tenant apart"


def refused(
    rows: Iterable[tuple[str, str, str]], by: str, *, neutral: dict[str, tuple[Any, ...]] | None = None
) -> Iterable[Row]:
    for name, about, why in rows:
        yield Row(name, about, says(otherwise="refused"), why, (neutral or {}).get(name, ()), by)


def reported(
    rows: Iterable[tuple[str, str, str]], by: str, *, neutral: dict[str, tuple[Any, ...]] | None = None
) -> Iterable[Row]:
    for name, about, why in rows:
        yield Row(name, about, says(otherwise="reported"), why, (neutral or {}).get(name, ()), by)


VLLM = (
    *refused((
        ("allowed_token_ids", "The only tokens that may be drawn.", "use `logit_bias`, or a constraint"),
        ("logprob_token_ids", "Tokens whose log probabilities to tell.", "use `top_logprobs`"),
        ("prompt_logprobs", "Log probabilities of the prompt.", NOT_TOLD),
        ("prompt_logprob_token_ids", "Tokens to score in the prompt.", NOT_TOLD),
        ("prompt_logprob_start", "Where to begin to score the prompt.", NOT_TOLD),
        ("flat_logprobs", "Log probabilities in another layout.", NOT_TOLD),
        ("detokenize", "`false`: answer tokens without text.", "the rails read text"),
        ("skip_special_tokens", "`false`: special tokens are part of the text.", "they are never part of it"),
        ("truncate_prompt_tokens", "Cut the prompt to so many tokens.", "nothing is cut; shorten the prompt"),
        ("truncation_side", "Where to cut the prompt.", "nothing is cut; shorten the prompt"),
        ("chat_template", "Another chat template.", "templates are the operator's; see `sluicegate.template`"),
        ("documents", "Documents for the chat template.", "send them in `sluicegate.context`"),
        ("logits_processors", "Code that changes scores.", NO_CODE),
        ("prompt_embeds", "A prompt as vectors.", NO_TOKENS),
        ("prompt_token_ids", "A prompt as tokens.", NO_TOKENS),
        ("multi_modal_data", "Images and sound.", TEXT_ONLY),
        ("mm_processor_kwargs", "How images are read.", TEXT_ONLY),
        ("media_io_kwargs", "How images are read.", TEXT_ONLY),
        ("watermarking", "Mark the text as a model's.", "no mark is put into a text here"),
        ("thinking_token_budget", "The most tokens of thoughts.", "`max_tokens` bounds thoughts and answer together"),
        ("return_token_ids", "Answer the tokens too.", NOT_TOLD),
        ("return_tokens_as_token_ids", "Log probabilities by token id.", NOT_TOLD),
        ("return_token_offsets", "Where in the prompt each token is.", NOT_TOLD),
        ("return_prompt_text", "Answer the prompt too.", NOT_TOLD),
        ("return_mm_kwargs", "What became of images.", NOT_TOLD),
        ("routed_experts_prompt_start", "Which experts were asked.", NOT_TOLD),
        ("kv_transfer_params", "State of another server.", "state comes from prompts alone"),
        ("ec_transfer_params", "State of another server.", "state comes from prompts alone"),
        ("vllm_xargs", "Arguments of extensions of vLLM.", "there are none here"),
        ("extra_args", "Arguments of extensions of vLLM.", "there are none here"),
        ("structured_outputs_config", "How vLLM compiles.", "see `sluicegate.grammar`"),
        ("trace_decode_token_ids", "The tokens to answer.", "an answer is drawn"),
        ("previous_input_messages", "Go on from another server's record.", NOT_STORED),
        ("previous_response", "Go on from another server's record.", NOT_STORED),
        ("enable_response_messages", "Answer the prompt too.", NOT_TOLD),
        ("lora_request", "An adapter.", NO_ADAPTER),
    ), "vLLM", neutral={
        "prompt_logprob_token_ids": ([],), "flat_logprobs": (False,), "detokenize": (True,),
        "skip_special_tokens": (True,), "allowed_token_ids": ([],), "documents": ([],), "logits_processors": ([],),
        "mm_processor_kwargs": ({},), "media_io_kwargs": ({},), "watermarking": (False,),
        "thinking_token_budget": (-1,), "return_token_ids": (False,), "return_tokens_as_token_ids": (False,),
        "return_token_offsets": (False,), "return_prompt_text": (False,), "return_mm_kwargs": (True,),
        "routed_experts_prompt_start": (0,), "vllm_xargs": ({},), "extra_args": ({},), "kv_transfer_params": ({},),
        "ec_transfer_params": ({},), "enable_response_messages": (False,), "previous_input_messages": ([],),
    }),
    Row("add_special_tokens", "Put special tokens around the prompt.", says(refused="chat responses messages"),
        "the chat template does", (False,), "vLLM"),
    Row("add_special_tokens", "`false`: no special tokens around the prompt.",
        says(refused="completions embeddings moderations"), "the tokenizer puts them there", (True,), "vLLM"),
    *reported((
        ("guided_decoding_backend", "What compiles the constraint.", "there is one, and it enforces all it takes"),
        ("guided_decoding_disable_fallback", "No other compiler.", "there is one, and it enforces all it takes"),
        ("spaces_between_special_tokens", "Spaces between special tokens.", "they are never part of the text"),
        ("priority", "Who is answered first.", PLACING),
        ("request_id", "The answer's id.", "the gateway gives its own; `x-request-id` is the caller's"),
        ("session_id", "Requests that belong together.", SAVING),
        ("cache_salt", "Whose prefixes are whose.", SAVING),
        ("stream_interval", "How many tokens a chunk has.", "a chunk leaves as soon as it may"),
        ("skip_reading_prefix_cache", "Read the prompt anew.", SAVING),
    ), "vLLM", neutral={
        "priority": (0,), "spaces_between_special_tokens": (True,), "guided_decoding_disable_fallback": (False,),
        "stream_interval": (1,), "skip_reading_prefix_cache": (False,),
    }),
)  # fmt: skip

SGLANG = (
    *refused((
        ("stop_regex", "Patterns that end the answer.", "use `stop`, or a `regex` for all of it"),
        ("lora_path", "An adapter.", NO_ADAPTER),
        ("lora", "An adapter.", NO_ADAPTER),
        ("session_params", "Go on with a stored session.", NOT_STORED),
        ("separate_reasoning", "`false`: thoughts are part of the text.", "they leave in a field of their own"),
        ("stream_reasoning", "`false`: thoughts leave at once.", "they stream as the answer does"),
        ("custom_logit_processor", "Code that changes scores.", NO_CODE),
        ("custom_params", "Arguments of that code.", NO_CODE),
        ("input_ids", "A prompt as tokens.", NO_TOKENS),
        ("input_embeds", "A prompt as vectors.", NO_TOKENS),
        ("image_data", "Images.", TEXT_ONLY),
        ("images_config", "How images are read.", TEXT_ONLY),
        ("max_dynamic_patch", "How images are read.", TEXT_ONLY),
        ("min_dynamic_patch", "How images are read.", TEXT_ONLY),
        ("use_audio_in_video", "How sound is read.", TEXT_ONLY),
        ("task", "A task that one model was trained for.", "say it in a message"),
        ("return_hidden_states", "Answer the model's states.", NOT_TOLD),
        ("return_routed_experts", "Which experts were asked.", NOT_TOLD),
        ("routed_experts_start_len", "Which experts were asked.", NOT_TOLD),
        ("return_cached_tokens_details", "Where cached tokens were.", NOT_TOLD),
        ("return_prompt_token_ids", "Answer the prompt's tokens.", NOT_TOLD),
        ("return_meta_info", "Answer what the server noted.", "send `sluicegate.explain`"),
        ("sampling_params", "Fields of SGLang's own /generate.", "send each of them beside `model`"),
        ("bootstrap_host", "State of another server.", "state comes from prompts alone"),
        ("bootstrap_port", "State of another server.", "state comes from prompts alone"),
        ("bootstrap_room", "State of another server.", "state comes from prompts alone"),
    ), "SGLang", neutral={
        "separate_reasoning": (True,), "stream_reasoning": (True,), "use_audio_in_video": (False,),
        "stop_regex": ([], ""), "custom_params": ({},), "session_params": ({},), "images_config": ({},),
        "return_hidden_states": (False,), "return_routed_experts": (False,), "routed_experts_start_len": (0,),
        "return_cached_tokens_details": (False,), "return_prompt_token_ids": (False,), "return_meta_info": (False,),
    }),
    *reported((
        ("rid", "The answer's id.", "the gateway gives its own; `x-request-id` is the caller's"),
        ("extra_key", "Requests that belong together.", TRACKING),
        ("custom_labels", "Labels of metrics.", TRACKING),
        ("ngram_corpus_id", "What guesses are taken from.", PLACING),
        ("routed_dp_rank", "Where it runs.", PLACING),
        ("data_parallel_rank", "Where it runs.", PLACING),
        ("disagg_prefill_dp_rank", "Where it runs.", PLACING),
    ), "SGLang", neutral={"custom_labels": ({},)}),
)  # fmt: skip
