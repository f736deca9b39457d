"""Fields of other servers that nothing here acts on: refused where they could change the answer, else reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.fields.row import Row, says

_NOT_STORED = "responses are not stored here; send the whole conversation"
_WAITED = "a response is made while its caller waits; use /v1/batches"
_TEXT_ONLY = "only text is read and written here"
_NO_TOKENS = "a prompt is text here, which the input rails can read; send its text"
_NO_ADAPTER = "models are chosen by `model`, adapters too"
_NO_CODE = "the gateway runs no code of its callers"
_NOT_TOLD = "the answer would say nothing of it"
_PLACING = "where and when a request runs is decided here, and changes no answer"
_TRACKING = "a name for the caller's own records"
_SAVING = "prefixes are reused by themselves, for each tenant apart"


def _refused(
    rows: Iterable[tuple[str, str, str]], by: str, *, neutral: dict[str, tuple[Any, ...]] | None = None
) -> Iterable[Row]:
    for name, about, why in rows:
        yield Row(name, about, says(otherwise="refused"), why, (neutral or {}).get(name, ()), by)


def _reported(
    rows: Iterable[tuple[str, str, str]], by: str, *, neutral: dict[str, tuple[Any, ...]] | None = None
) -> Iterable[Row]:
    for name, about, why in rows:
        yield Row(name, about, says(otherwise="reported"), why, (neutral or {}).get(name, ()), by)


_OPENAI = (
    *_refused(
        (
            ("functions", "Functions, under their older name.", "send `tools`"),
            ("function_call", "Which function is called, under its older name.", "send `tool_choice`"),
            ("audio", "An answer to listen to.", _TEXT_ONLY),
            ("image", "How images are read.", _TEXT_ONLY),
            ("prediction", "An answer that is expected, to be faster.", "predicted outputs are not served"),
            ("web_search_options", "Search the web first.", "the gateway never searches the web"),
            ("moderation", "Verdicts of OpenAI's on what is said.", "rails are the operator's; use /v1/moderations"),
            ("echo", "Answer the prompt too.", "put the prompt before the answer yourself"),
            ("suffix", "What comes after the text to be written.", "the models served here write forward only"),
            ("previous_response_id", "Go on from a stored response.", _NOT_STORED),
            ("conversation", "Go on with a stored conversation.", _NOT_STORED),
            ("background", "Answer later.", _WAITED),
            ("background_options", "How to answer later.", _WAITED),
            ("context_management", "Shorten the conversation.", "shorten the conversation yourself"),
            ("truncation", "`auto`: leave out what does not fit.", "nothing is left out; shorten the conversation"),
            ("access_programs", "Programs of OpenAI's.", "they are OpenAI's"),
        ),
        "OpenAI",
        neutral={
            "functions": ([],),
            "function_call": ("none",),
            "echo": (False,),
            "suffix": ("",),
            "background": (False,),
            "truncation": ("disabled",),
        },
    ),
    Row("store", "Keep the response, to go on from it later.", says(refused="responses", otherwise="reported"),
        "responses are not stored here; send `store: false`", (False,)),
    *_reported(
        (
            ("service_tier", "How soon to answer, for what price.", _PLACING),
            ("verbosity", "A hint at how much to say.", "no model here reads it; say it in a message"),
            ("prompt_cache_key", "Requests that begin alike.", _SAVING),
            ("prompt_cache_retention", "How long beginnings are kept.", _SAVING),
            ("prompt_cache_options", "How beginnings are kept.", _SAVING),
            ("safety_identifier", "Who asks, as a digest.", _TRACKING),
            ("max_tool_calls", "The most calls of OpenAI's own tools.", "there are none here"),
        ),
        "OpenAI",
        neutral={"service_tier": ("auto", "default"), "verbosity": ("medium",)},
    ),
)  # fmt: skip

_ANTHROPIC = (
    *_refused(
        (
            ("container", "Where code runs.", _NO_CODE),
            ("mcp_servers", "Servers whose tools are called.", "call the tools yourself and send their results"),
            ("inference_geo", "Where in the world the model runs.", "nothing is known here about places"),
            ("fallbacks", "Other models, where this one refuses.", "the operator's routes say who answers instead"),
            ("compaction", "Shorten the conversation.", "shorten the conversation yourself"),
            ("thread", "Go on with a stored conversation.", _NOT_STORED),
        ),
        "Anthropic",
        neutral={"mcp_servers": ([],), "fallbacks": ([],)},
    ),
    *_reported(
        (
            ("cache_control", "What to keep of the prompt.", _SAVING),
            ("speed", "How fast to answer, for what price.", _PLACING),
            ("diagnostics", "What to say about caches.", _SAVING),
            ("betas", "Features that are being tried.", "each has a field, which this table names"),
            ("billing_policy", "How it is paid.", _TRACKING),
            ("fallback_credit_token", "How it is paid.", _TRACKING),
            ("user_profile_id", "Who asks.", _TRACKING),
            ("workspace_id", "Who asks.", _TRACKING),
        ),
        "Anthropic",
        neutral={"speed": ("standard",), "betas": ([],)},
    ),
)

_VLLM = (
    *_refused(
        (
            ("allowed_token_ids", "The only tokens that may be drawn.", "use `logit_bias`, or a constraint"),
            ("logprob_token_ids", "Tokens whose log probabilities to tell.", "use `top_logprobs`"),
            ("prompt_logprobs", "Log probabilities of the prompt.", _NOT_TOLD),
            ("prompt_logprob_token_ids", "Tokens to score in the prompt.", _NOT_TOLD),
            ("prompt_logprob_start", "Where to begin to score the prompt.", _NOT_TOLD),
            ("flat_logprobs", "Log probabilities in another layout.", _NOT_TOLD),
            ("detokenize", "`false`: answer tokens without text.", "the rails read text"),
            ("skip_special_tokens", "`false`: special tokens are part of the text.", "they are never part of it"),
            ("add_special_tokens", "Put special tokens around the prompt.", "the template, or the tokenizer, does"),
            ("truncate_prompt_tokens", "Cut the prompt to so many tokens.", "nothing is cut; shorten the prompt"),
            ("truncation_side", "Where to cut the prompt.", "nothing is cut; shorten the prompt"),
            ("chat_template", "Another chat template.", "templates are the operator's; see `sluicegate.template`"),
            ("documents", "Documents for the chat template.", "send them in `sluicegate.context`"),
            ("logits_processors", "Code that changes scores.", _NO_CODE),
            ("prompt_embeds", "A prompt as vectors.", _NO_TOKENS),
            ("prompt_token_ids", "A prompt as tokens.", _NO_TOKENS),
            ("multi_modal_data", "Images and sound.", _TEXT_ONLY),
            ("mm_processor_kwargs", "How images are read.", _TEXT_ONLY),
            ("media_io_kwargs", "How images are read.", _TEXT_ONLY),
            ("watermarking", "Mark the text as a model's.", "no mark is put into a text here"),
            (
                "thinking_token_budget",
                "The most tokens of thoughts.",
                "`max_tokens` bounds thoughts and answer together",
            ),
            ("return_token_ids", "Answer the tokens too.", _NOT_TOLD),
            ("return_tokens_as_token_ids", "Log probabilities by token id.", _NOT_TOLD),
            ("return_token_offsets", "Where in the prompt each token is.", _NOT_TOLD),
            ("return_prompt_text", "Answer the prompt too.", _NOT_TOLD),
            ("return_mm_kwargs", "What became of images.", _NOT_TOLD),
            ("routed_experts_prompt_start", "Which experts were asked.", _NOT_TOLD),
            ("kv_transfer_params", "State of another server.", "state comes from prompts alone"),
            ("ec_transfer_params", "State of another server.", "state comes from prompts alone"),
            ("vllm_xargs", "Arguments of extensions of vLLM.", "there are none here"),
            ("extra_args", "Arguments of extensions of vLLM.", "there are none here"),
            ("structured_outputs_config", "How vLLM compiles.", "see `sluicegate.grammar`"),
            ("trace_decode_token_ids", "The tokens to answer.", "an answer is drawn"),
            ("previous_input_messages", "Go on from another server's record.", _NOT_STORED),
            ("previous_response", "Go on from another server's record.", _NOT_STORED),
            ("enable_response_messages", "Answer the prompt too.", _NOT_TOLD),
            ("lora_request", "An adapter.", _NO_ADAPTER),
        ),
        "vLLM",
        neutral={
            "prompt_logprob_token_ids": ([],),
            "flat_logprobs": (False,),
            "detokenize": (True,),
            "skip_special_tokens": (True,),
            "allowed_token_ids": ([],),
            "documents": ([],),
            "logits_processors": ([],),
            "mm_processor_kwargs": ({},),
            "media_io_kwargs": ({},),
            "watermarking": (False,),
            "thinking_token_budget": (-1,),
            "return_token_ids": (False,),
            "return_tokens_as_token_ids": (False,),
            "return_token_offsets": (False,),
            "return_prompt_text": (False,),
            "return_mm_kwargs": (True,),
            "routed_experts_prompt_start": (0,),
            "vllm_xargs": ({},),
            "extra_args": ({},),
            "kv_transfer_params": ({},),
            "ec_transfer_params": ({},),
            "enable_response_messages": (False,),
            "previous_input_messages": ([],),
        },
    ),
    *_reported(
        (
            ("guided_decoding_backend", "What compiles the constraint.", "there is one, and it enforces all it takes"),
            ("guided_decoding_disable_fallback", "No other compiler.", "there is one, and it enforces all it takes"),
            ("spaces_between_special_tokens", "Spaces between special tokens.", "they are never part of the text"),
            ("priority", "Who is answered first.", _PLACING),
            ("request_id", "The answer's id.", "the gateway gives its own; `x-request-id` is the caller's"),
            ("session_id", "Requests that belong together.", _SAVING),
            ("cache_salt", "Whose prefixes are whose.", _SAVING),
            ("stream_interval", "How many tokens a chunk has.", "a chunk leaves as soon as it may"),
            ("skip_reading_prefix_cache", "Read the prompt anew.", _SAVING),
        ),
        "vLLM",
        neutral={
            "priority": (0,),
            "spaces_between_special_tokens": (True,),
            "guided_decoding_disable_fallback": (False,),
            "stream_interval": (1,),
            "skip_reading_prefix_cache": (False,),
        },
    ),
)

_SGLANG = (
    *_refused(
        (
            ("stop_regex", "Patterns that end the answer.", "use `stop`, or a `regex` for all of it"),
            ("lora_path", "An adapter.", _NO_ADAPTER),
            ("lora", "An adapter.", _NO_ADAPTER),
            ("session_params", "Go on with a stored session.", _NOT_STORED),
            ("separate_reasoning", "`false`: thoughts are part of the text.", "they leave in a field of their own"),
            ("stream_reasoning", "`false`: thoughts leave at once.", "they stream as the answer does"),
            ("custom_logit_processor", "Code that changes scores.", _NO_CODE),
            ("custom_params", "Arguments of that code.", _NO_CODE),
            ("input_ids", "A prompt as tokens.", _NO_TOKENS),
            ("input_embeds", "A prompt as vectors.", _NO_TOKENS),
            ("image_data", "Images.", _TEXT_ONLY),
            ("images_config", "How images are read.", _TEXT_ONLY),
            ("max_dynamic_patch", "How images are read.", _TEXT_ONLY),
            ("min_dynamic_patch", "How images are read.", _TEXT_ONLY),
            ("use_audio_in_video", "How sound is read.", _TEXT_ONLY),
            ("task", "A task that one model was trained for.", "say it in a message"),
            ("return_hidden_states", "Answer the model's states.", _NOT_TOLD),
            ("return_routed_experts", "Which experts were asked.", _NOT_TOLD),
            ("routed_experts_start_len", "Which experts were asked.", _NOT_TOLD),
            ("return_cached_tokens_details", "Where cached tokens were.", _NOT_TOLD),
            ("return_prompt_token_ids", "Answer the prompt's tokens.", _NOT_TOLD),
            ("return_meta_info", "Answer what the server noted.", "send `sluicegate.explain`"),
            ("sampling_params", "Fields of SGLang's own /generate.", "send each of them beside `model`"),
            ("bootstrap_host", "State of another server.", "state comes from prompts alone"),
            ("bootstrap_port", "State of another server.", "state comes from prompts alone"),
            ("bootstrap_room", "State of another server.", "state comes from prompts alone"),
        ),
        "SGLang",
        neutral={
            "separate_reasoning": (True,),
            "stream_reasoning": (True,),
            "use_audio_in_video": (False,),
            "stop_regex": ([], ""),
            "custom_params": ({},),
            "session_params": ({},),
            "images_config": ({},),
            "return_hidden_states": (False,),
            "return_routed_experts": (False,),
            "routed_experts_start_len": (0,),
            "return_cached_tokens_details": (False,),
            "return_prompt_token_ids": (False,),
            "return_meta_info": (False,),
        },
    ),
    *_reported(
        (
            ("rid", "The answer's id.", "the gateway gives its own; `x-request-id` is the caller's"),
            ("extra_key", "Requests that belong together.", _TRACKING),
            ("custom_labels", "Labels of metrics.", _TRACKING),
            ("ngram_corpus_id", "What guesses are taken from.", _PLACING),
            ("routed_dp_rank", "Where it runs.", _PLACING),
            ("data_parallel_rank", "Where it runs.", _PLACING),
            ("disagg_prefill_dp_rank", "Where it runs.", _PLACING),
        ),
        "SGLang",
        neutral={"custom_labels": ({},)},
    ),
)

_OTHERS = (
    *_refused(
        (
            ("top_a", "Another way to narrow a draw.", "use `min_p`"),
            ("tfs", "Another way to narrow a draw.", "use `typical_p`"),
            ("mirostat", "Another way to draw.", "use `temperature` and `top_p`"),
            ("mirostat_mode", "Another way to draw.", "use `temperature` and `top_p`"),
            ("mirostat_tau", "Another way to draw.", "use `temperature` and `top_p`"),
            ("mirostat_eta", "Another way to draw.", "use `temperature` and `top_p`"),
            ("dry_multiplier", "Another penalty.", "use `repetition_penalty`"),
            ("no_repeat_ngram_size", "Another penalty.", "use `repetition_detection`"),
            ("repeat_penalty", "llama.cpp's name.", "send `repetition_penalty`"),
            ("n_predict", "llama.cpp's name.", "send `max_tokens`"),
            ("max_new_tokens", "transformers' name.", "send `max_tokens`"),
            ("num_predict", "Ollama's name.", "send `max_tokens`"),
            ("grammar", "llama.cpp's name.", "send `structured_outputs.grammar`, or `ebnf`"),
            ("grammar_type", "Which notation a grammar has.", "send `structured_outputs.grammar`"),
            ("guided_decoding", "A name of no server.", "send `structured_outputs`"),
            ("format", "Ollama's name.", "send `response_format`"),
            ("options", "Ollama's options.", "send each of them beside `model`"),
            ("think", "Ollama's name.", "send `reasoning_effort`"),
            ("enable_thinking", "Qwen's name.", "send it in `chat_template_kwargs`, or `reasoning_effort`"),
            ("thinking_budget", "The most tokens of thoughts.", "`max_tokens` bounds thoughts and answer together"),
            ("safe_prompt", "Mistral's own system text.", "say it in a message"),
            ("random_seed", "Mistral's name.", "send `seed`"),
            ("prefix", "A beginning of the answer.", "send `continue_final_message`"),
            ("models", "Other models, where this one fails.", "the operator's routes say who answers instead"),
            ("provider", "Who runs the model.", "the operator's routes say who answers"),
            ("plugins", "Tools of OpenRouter's.", "call the tools yourself"),
            ("transforms", "What to leave out of a prompt.", "nothing is left out; shorten the prompt"),
            ("extra_body", "An option of OpenAI's client, not of the body.", "send its fields beside `model`"),
        ),
        "others",
        neutral={
            "mirostat": (0,), "mirostat_mode": (0,), "top_a": (0,), "tfs": (1,), "dry_multiplier": (0,),
            "no_repeat_ngram_size": (0,), "repeat_penalty": (1,), "safe_prompt": (False,), "transforms": ([],),
            "models": ([],), "plugins": ([],), "think": (False,), "enable_thinking": (False,), "extra_body": ({},),
        },
    ),
)  # fmt: skip

FOREIGN: tuple[Row, ...] = (*_OPENAI, *_ANTHROPIC, *_VLLM, *_SGLANG, *_OTHERS)
