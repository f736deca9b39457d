"""Fields of other servers that nothing here acts on: refused where they could change the answer, else reported."""

from __future__ import annotations

from sluicegate.gateway.fields.row import Row, says
from sluicegate.gateway.fields.unsupported_libraries import MORE
from sluicegate.gateway.fields.unsupported_servers import (
    NO_CODE,
    NOT_STORED,
    PLACING,
    SAVING,
    SGLANG,
    TEXT_ONLY,
    TRACKING,
    VLLM,
    WAITED,
    refused,
    reported,
)

_OPENAI = (
    *refused((
        ("functions", "Functions, under their older name.", "send `tools`"),
        ("function_call", "Which function is called, under its older name.", "send `tool_choice`"),
        ("audio", "An answer to listen to.", TEXT_ONLY),
        ("image", "How images are read.", TEXT_ONLY),
        ("prediction", "An answer that is expected, to be faster.", "predicted outputs are not served"),
        ("web_search_options", "Search the web first.", "the gateway never searches the web"),
        ("moderation", "Verdicts of OpenAI's on what is said.", "rails are the operator's; use /v1/moderations"),
        ("echo", "Answer the prompt too.", "put the prompt before the answer yourself"),
        ("suffix", "What comes after the text to be written.", "the models served here write forward only"),
        ("previous_response_id", "Go on from a stored response.", NOT_STORED),
        ("conversation", "Go on with a stored conversation.", NOT_STORED),
        ("background", "Answer later.", WAITED),
        ("background_options", "How to answer later.", WAITED),
        ("context_management", "Shorten the conversation.", "shorten the conversation yourself"),
        ("truncation", "`auto`: leave out what does not fit.", "nothing is left out; shorten the conversation"),
        ("access_programs", "Programs of OpenAI's.", "they are OpenAI's"),
    ), "OpenAI", neutral={
        "functions": ([],), "function_call": ("none",), "echo": (False,), "suffix": ("",), "background": (False,),
        "truncation": ("disabled",),
        "context_management": ([], {"edits": []}, {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
    }),
    Row("store", "Keep the response, to go on from it later.", says(refused="responses", otherwise="reported"),
        "responses are not stored here; send `store: false`", (False,)),
    *reported((
        ("service_tier", "How soon to answer, for what price.", PLACING),
        ("verbosity", "A hint at how much to say.", "no model here reads it; say it in a message"),
        ("prompt_cache_key", "Requests that begin alike.", SAVING),
        ("prompt_cache_retention", "How long beginnings are kept.", SAVING),
        ("prompt_cache_options", "How beginnings are kept.", SAVING),
        ("safety_identifier", "Who asks, as a digest.", TRACKING),
        ("max_tool_calls", "The most calls of OpenAI's own tools.", "there are none here"),
    ), "OpenAI", neutral={"service_tier": ("auto", "default"), "verbosity": ("medium",)}),
)  # fmt: skip

_ANTHROPIC = (
    *refused((
        ("container", "Where code runs.", NO_CODE),
        ("mcp_servers", "Servers whose tools are called.", "call the tools yourself and send their results"),
        ("inference_geo", "Where in the world the model runs.", "nothing is known here about places"),
        ("fallbacks", "Other models, where this one refuses.", "the operator's routes say who answers instead"),
        ("compaction", "Shorten the conversation.", "shorten the conversation yourself"),
        ("thread", "Go on with a stored conversation.", NOT_STORED),
    ), "Anthropic", neutral={"mcp_servers": ([],), "fallbacks": ([],)}),
    *reported((
        ("cache_control", "What to keep of the prompt.", SAVING),
        ("speed", "How fast to answer, for what price.", PLACING),
        ("diagnostics", "What to say about caches.", SAVING),
        ("betas", "Features that are being tried.", "each has a field, which this table names"),
        ("billing_policy", "How it is paid.", TRACKING),
        ("fallback_credit_token", "How it is paid.", TRACKING),
        ("user_profile_id", "Who asks.", TRACKING),
        ("workspace_id", "Who asks.", TRACKING),
    ), "Anthropic", neutral={"speed": ("standard",), "betas": ([],)}),
)  # fmt: skip

_OTHERS = (
    *refused((
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
        ("max_length", "transformers' name.", "send `max_tokens`"),
        ("min_new_tokens", "transformers' name.", "send `min_tokens`"),
        ("min_length", "transformers' name.", "send `min_tokens`"),
        ("do_sample", "Draw, or take the likeliest token.", "send `temperature`"),
        ("num_beams", "transformers' name.", "send `use_beam_search` and `best_of`"),
        ("xtc_probability", "Another way to narrow a draw.", "use `min_p`"),
        ("xtc_threshold", "Another way to narrow a draw.", "use `min_p`"),
        ("dynatemp_range", "Another way to draw.", "use `temperature`"),
        ("safe_prompt", "Mistral's own system text.", "say it in a message"),
        ("prefix", "A beginning of the answer.", "send `continue_final_message`"),
        ("models", "Other models, where this one fails.", "the operator's routes say who answers instead"),
        ("provider", "Who runs the model.", "the operator's routes say who answers"),
        ("plugins", "Tools of OpenRouter's.", "call the tools yourself"),
        ("transforms", "What to leave out of a prompt.", "nothing is left out; shorten the prompt"),
        ("extra_body", "An option of OpenAI's client, not of the body.", "send its fields beside `model`"),
    ), "others", neutral={
        "mirostat": (0,), "mirostat_mode": (0,), "top_a": (0,), "tfs": (1,), "dry_multiplier": (0,),
        "no_repeat_ngram_size": (0,), "repeat_penalty": (1,), "safe_prompt": (False,), "transforms": ([],),
        "models": ([],), "num_beams": (1,), "xtc_probability": (0,), "xtc_threshold": (0,), "dynatemp_range": (0,),
        "min_length": (0,), "min_new_tokens": (0,), "plugins": ([],), "think": (False,), "enable_thinking": (False,),
        "extra_body": ({},), "provider": ({},),
    }),
)  # fmt: skip

UNSUPPORTED: tuple[Row, ...] = (*_OPENAI, *_ANTHROPIC, *VLLM, *SGLANG, *_OTHERS, *MORE)
