"""Fields of transformers, TGI, llama.cpp, Ollama, Mistral, Azure, Google, xAI, Perplexity and LiteLLM, all refused:
each would change the answer, or what is answered from."""

from __future__ import annotations

from sluicegate.gateway.fields.unsupported_servers import NO_ADAPTER, refused

OTHER_DRAW = "use `temperature`, `top_p` or `min_p`"
OTHER_PENALTY = "use `repetition_penalty`"
OTHER_TOKENS = "use `logit_bias`, or a constraint"
NOT_CUT = "nothing is cut; shorten the prompt"
NO_SEARCH = "the gateway never searches the web"
NO_ROUTES = "the operator's routes say who answers instead"
NO_RAILS = "the rails are the operator's"

MORE = (
    *refused((
        ("epsilon_cutoff", "Another way to narrow a draw.", OTHER_DRAW),
        ("eta_cutoff", "Another way to narrow a draw.", OTHER_DRAW),
        ("top_n_sigma", "Another way to narrow a draw.", OTHER_DRAW),
        ("nsigma", "Another way to narrow a draw.", OTHER_DRAW),
        ("dynamic_temperature", "Another way to draw.", OTHER_DRAW),
        ("smoothing_factor", "Another way to draw.", OTHER_DRAW),
        ("dynatemp_exponent", "Another way to draw.", OTHER_DRAW),
        ("samplers", "Which steps narrow a draw, in which order.", OTHER_DRAW),
        ("penalty_alpha", "Another way to search.", "use `use_beam_search`"),
        ("guidance_scale", "How much a second prompt counts.", "say it in a message"),
        ("negative_prompt", "What not to write.", "say it in a message"),
        ("encoder_repetition_penalty", "Another penalty.", OTHER_PENALTY),
        ("exponential_decay_length_penalty", "Shorter answers.", "send `max_tokens`"),
        ("repeat_last_n", "How far a penalty looks back.", "a penalty looks at the whole"),
        ("penalize_nl", "Whether line breaks are penalised.", "a penalty looks at the whole"),
        ("dry_base", "Another penalty.", OTHER_PENALTY),
        ("dry_allowed_length", "Another penalty.", OTHER_PENALTY),
        ("dry_penalty_last_n", "Another penalty.", OTHER_PENALTY),
        ("suppress_tokens", "Tokens that are never drawn.", OTHER_TOKENS),
        ("begin_suppress_tokens", "Tokens that are not drawn first.", OTHER_TOKENS),
        ("sequence_bias", "Scores of several tokens in a row.", OTHER_TOKENS),
        ("force_words_ids", "Tokens that must come.", OTHER_TOKENS),
        ("bad_words_ids", "Tokens that must not come.", "send `bad_words`"),
        ("forced_bos_token_id", "The first token.", OTHER_TOKENS),
        ("forced_eos_token_id", "The last token.", OTHER_TOKENS),
        ("eos_token_id", "The token that ends an answer.", "send `stop_token_ids`"),
        ("ban_eos_token", "Never end by oneself.", "send `ignore_eos`"),
        ("max_time", "Seconds that an answer may take.", "send `sluicegate.deadline_s`"),
        ("t_max_predict_ms", "Milliseconds that an answer may take.", "send `sluicegate.deadline_s`"),
        ("stop_token", "A token that ends an answer.", "send `stop_token_ids`, or `stop`"),
        ("stop_words", "Texts that end an answer.", "send `stop`"),
        ("truncate", "Cut the prompt to so many tokens.", NOT_CUT),
        ("n_keep", "What stays of a prompt that is cut.", NOT_CUT),
        ("num_keep", "What stays of a prompt that is cut.", NOT_CUT),
        ("num_ctx", "Room for prompt and answer.", "the model's own is served"),
        ("watermark", "Mark the text as a model's.", "no mark is put into a text here"),
        ("return_full_text", "Answer the prompt too.", "put the prompt before the answer yourself"),
        ("adapter_id", "An adapter.", NO_ADAPTER),
        ("adapter", "An adapter.", NO_ADAPTER),
        ("tool_prompt", "What stands before the tools in a prompt.", "say it in a message"),
        ("guideline", "A variable of the chat template.", "send it in `chat_template_kwargs`"),
        ("system_prompt", "The system's message.", "send it in `messages`"),
        ("template", "Another template of prompts.", "see `sluicegate.template`"),
        ("prompt_mode", "Mistral's own system text for thoughts.", "send `reasoning_effort`"),
        ("response_schema", "The schema of the answer.", "send `response_format`"),
        ("response_mime_type", "The kind of the answer.", "send `response_format`"),
        ("output_schema", "The schema of the answer.", "send `response_format`"),
        ("generation_config", "Google's options.", "send each of them beside `model`"),
        ("system_instruction", "Google's system message.", "send it in `messages`"),
        ("tool_config", "Google's choice of tools.", "send `tool_choice`"),
        ("safety_settings", "Google's filters.", NO_RAILS),
        ("guardrails", "Rails that are to run.", NO_RAILS),
        ("guardrail_config", "Rails that are to run.", NO_RAILS),
        ("data_sources", "Documents of Azure's to search.", "send them in `sluicegate.context`"),
        ("search_parameters", "Search the web first.", NO_SEARCH),
        ("web_search", "Search the web first.", NO_SEARCH),
        ("search_domain_filter", "Where to search the web.", NO_SEARCH),
        ("search_recency_filter", "What to find in the web.", NO_SEARCH),
        ("route", "What to do where a model fails.", NO_ROUTES),
        ("preset", "Options that are kept elsewhere.", "send each of them"),
        ("fallback_models", "Other models, where this one fails.", NO_ROUTES),
        ("mock_response", "An answer that nobody generates.", "an answer is drawn"),
        ("return_citations", "Say where an answer comes from.", NO_SEARCH),
        ("return_images", "Answer images too.", "only text is read and written here"),
    ), "others", neutral={
        "epsilon_cutoff": (0,), "eta_cutoff": (0,), "top_n_sigma": (0, -1), "nsigma": (0,), "penalty_alpha": (0,),
        "dynamic_temperature": (False,), "smoothing_factor": (0,), "guidance_scale": (1,), "negative_prompt": ("",),
        "encoder_repetition_penalty": (1,), "repeat_last_n": (-1,), "penalize_nl": (False,), "ban_eos_token": (False,),
        "watermark": (False,), "return_full_text": (False,), "guardrails": ([],), "safety_settings": ([],),
        "data_sources": ([],), "web_search": (False,), "system_prompt": ("",), "return_citations": (False,),
        "return_images": (False,), "stop_words": ([],), "t_max_predict_ms": (0,), "suppress_tokens": ([],),
        "begin_suppress_tokens": ([],), "samplers": ([],),
    }),
)  # fmt: skip
