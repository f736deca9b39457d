"""Fields inside what is read, by path: `messages[].name`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.gateway.fields.row import Row, Status, says

_TEXT_ONLY = "only text is read and written here"
SAVING = "prefixes are reused by themselves, for each tenant apart"
_EARLIER = "a note of an earlier answer; models are not shown it again"
_NO_CITATIONS = "answers quote no documents"
ALWAYS = "Whether it is enforced: it always is."


def rows(
    status: Status,
    dialects: str,
    fields: Mapping[str, tuple[str, str] | str],
    by: str = "OpenAI",
    neutral: Mapping[str, tuple[Any, ...]] | None = None,
) -> Iterable[Row]:
    """Yield a row for each path in `fields`, which maps to what the field asks for, or to that and why it is not
    served."""
    served, refused, reported = (dialects if status == one else "" for one in ("served", "refused", "reported"))
    for path, said in fields.items():
        about, why = (said, "") if isinstance(said, str) else said
        yield Row(path, about, says(served, refused, reported), why, (neutral or {}).get(path, ()), by)


_MESSAGES = (
    *rows("served", "chat messages", {
        "messages[].role": "Who speaks.",
        "messages[].content": "What is said: text, or a list of parts.",
        "messages[].content[].type": "What the part is; only text is read.",
        "messages[].content[].text": "A part's text.",
    }),
    *rows("served", "chat", {
        "messages[].content[].refusal": "What a model said instead of an answer.",
        "messages[].refusal": "What a model said instead of an answer.",
        "messages[].name": "Who of several speaks.",
        "messages[].tool_calls": "What the assistant asked to be called.",
        "messages[].tool_calls[].id": "The call's name, for its result.",
        "messages[].tool_calls[].type": "`function` or `custom`.",
        "messages[].tool_calls[].custom": "A custom tool that was called.",
        "messages[].tool_calls[].custom.name": "The tool.",
        "messages[].tool_calls[].custom.input": "The text that it was called with.",
        "messages[].tool_calls[].function": "What was called.",
        "messages[].tool_calls[].function.name": "The tool.",
        "messages[].tool_calls[].function.arguments": "Its arguments, as JSON text.",
        "messages[].tool_call_id": "The call that this is the result of.",
    }),
    *rows("refused", "chat", {
        "messages[].function_call": ("A call, under its older name.", "send `tool_calls`"),
        "messages[].audio": ("An earlier answer to listen to.", _TEXT_ONLY),
        "messages[].tools": ("Tools of one message.", "send `tools` beside `messages`"),
        "messages[].prefix": ("The beginning of the answer.", "send `continue_final_message: true`"),
        "messages[].partial": ("The beginning of the answer.", "send `continue_final_message: true`"),
    }, neutral={"messages[].prefix": (False,), "messages[].partial": (False,), "messages[].tools": ([],)}),
    *rows("reported", "chat", {
        "messages[].reasoning": ("Thoughts of an earlier answer.", _EARLIER),
        "messages[].reasoning_content": ("Thoughts of an earlier answer.", _EARLIER),
        "messages[].reasoning_details": ("Thoughts of an earlier answer.", _EARLIER),
        "messages[].annotations": ("Sources of an earlier answer.", _EARLIER),
        "messages[].tool_calls[].index": ("The place of a call.", "calls stand in their order"),
        "messages[].weight": ("What training makes of it.", "nothing is trained here"),
        "messages[].content[].prompt_cache_breakpoint": ("What to keep of the prompt.", SAVING),
    }, neutral={"messages[].annotations": ([],)}),
    *rows("reported", "chat messages", {
        "messages[].cache_control": ("What to keep of the prompt.", SAVING),
        "messages[].content[].cache_control": ("What to keep of the prompt.", SAVING),
        "tools[].cache_control": ("What to keep of the prompt.", SAVING),
    }, "Anthropic"),
)  # fmt: skip

_BLOCKS = (
    *rows("served", "messages", {
        "messages[].content[].id": "The call's name, for its result.",
        "messages[].content[].name": "The tool that was called.",
        "messages[].content[].input": "What it was called with.",
        "messages[].content[].tool_use_id": "The call that this is the result of.",
        "messages[].content[].content": "What the tool answered.",
        "messages[].content[].content[].type": "`text`.",
        "messages[].content[].content[].text": "A part's text.",
        "messages[].content[].is_error": "The call failed; the model reads that it did.",
        "messages[].content[].source": "A document.",
        "messages[].content[].source.type": "`text`.",
        "messages[].content[].source.data": "The document's text; rails judge it as a document.",
        "messages[].content[].title": "The document's title, which the model reads.",
        "system[].type": "`text`.",
        "system[].text": "A part's text.",
        "metadata.user_id": "Who asks, in the caller's own words.",
        "thinking.type": "`enabled` and `adaptive` turn thoughts on, `disabled` off.",
        "output_config.format": "The shape of the answer.",
        "output_config.format.type": "`json_schema`.",
        "output_config.format.schema": "The schema.",
        "output_format.type": "`json_schema`.",
        "output_format.schema": "The schema.",
        "tools[].input_schema": "The schema of its arguments, which every call satisfies.",
        "tool_choice.disable_parallel_tool_use": "At most one call in an answer.",
    }, "Anthropic"),
    *rows("refused", "messages", {
        "thinking.display": ("`omitted`: thoughts do not leave.", "thoughts that are made always leave"),
        "messages[].content[].context": ("What to know about a document.", "say it in a text"),
        "messages[].content[].toolset_name": ("Tools of Anthropic's own.", "tools are the caller's own here"),
    }, "Anthropic", {"thinking.display": ("summarized",)}),
    *rows("reported", "messages", {
        "output_config.effort": ("A hint at how much to think.", "how much there is is the model's affair"),
        "thinking.budget_tokens": ("The most tokens of thoughts.", "`max_tokens` bounds thoughts and answer together"),
        "messages[].content[].citations": ("Quotes of documents.", _NO_CITATIONS),
        "messages[].content[].caller": ("Who called the tool.", _EARLIER),
        "messages[].content[].thinking": ("Thoughts of an earlier answer.", _EARLIER),
        "messages[].content[].signature": ("Thoughts of an earlier answer.", _EARLIER),
        "messages[].content[].data": ("Thoughts of an earlier answer.", _EARLIER),
        "messages[].content[].source.media_type": ("What the document's text is.", "it is read as text"),
        "messages[].content[].content[].cache_control": ("What to keep of the prompt.", SAVING),
        "messages[].content[].content[].citations": ("Quotes of documents.", _NO_CITATIONS),
        "system[].cache_control": ("What to keep of the prompt.", SAVING),
        "system[].citations": ("Quotes of documents.", _NO_CITATIONS),
        "tools[].input_examples": ("Examples of arguments.", "put them into the description"),
        "tools[].eager_input_streaming": ("Arguments as they are made.", "they always stream"),
        "tools[].allowed_callers": ("Who may call the tool.", "the model alone calls tools here"),
    }, "Anthropic", {
        "output_config.effort": ("high",), "messages[].content[].citations": ({"enabled": False}, []),
        "messages[].content[].content[].citations": ([],), "messages[].content[].source.media_type": ("text/plain",),
        "messages[].content[].caller": ({"type": "direct"},), "tools[].input_examples": ([],),
        "tools[].allowed_callers": (["direct"], []),
    }),
)  # fmt: skip

_ITEMS = (
    *rows("served", "responses moderations", {"input[].type": "What the item is."}),
    *rows("served", "moderations", {"input[].text": "The text to judge."}),
    *rows("served", "responses", {
        "input[].role": "Who speaks.",
        "input[].content": "What is said: text, or a list of parts.",
        "input[].content[].type": "What the part is; only text is read.",
        "input[].content[].text": "A part's text.",
        "input[].content[].refusal": "What a model said instead of an answer.",
        "input[].call_id": "The call's name, for its result.",
        "input[].name": "The tool that was called.",
        "input[].arguments": "Its arguments, as JSON text.",
        "input[].input": "The text that a custom tool was called with.",
        "input[].output": "What the tool answered.",
        "input[].output[].type": "What the part is; only text is read.",
        "input[].output[].text": "A part's text.",
        "input[].output[].refusal": "What a model said instead of an answer.",
        "text.format": "The shape of the answer.",
        "text.format.type": "`text`, `json_object` or `json_schema`.",
        "text.format.name": "The schema's name.",
        "text.format.schema": "The schema.",
        "text.format.strict": ALWAYS,
        "tool_choice.mode": "Of `allowed_tools`: whether one must be called.",
        "tool_choice.tools": "Of `allowed_tools`: the tools.",
        "tools[].parameters": "The schema of its arguments, which every call satisfies.",
        "tools[].strict": ALWAYS,
        "tools[].format": "Of a custom tool: what its text looks like.",
        "tools[].format.type": "`text` or `grammar`.",
        "tools[].format.syntax": "`lark` or `regex`.",
        "tools[].format.definition": "The grammar that every text follows; the model is shown it too.",
    }),
    *rows("refused", "responses", {
        "input[].namespace": ("Tools of a group.", "tools have no groups here"),
        "tools[].async": ("Answer before the tool has.",
            "the caller runs tools, and goes on when it has their results"),
    }, neutral={"tools[].async": (False,)}),
    *rows("reported", "responses", {
        "text.verbosity": ("A hint at how much to say.", "no model here reads it; say it in a message"),
        "text.format.description": ("What the schema is for.", "models read the schema's own"),
        "reasoning.summary": ("Thoughts in few words.", "thoughts leave as they are"),
        "reasoning.generate_summary": ("Thoughts in few words.", "thoughts leave as they are"),
        "input[].id": ("The item's name.", _EARLIER),
        "input[].status": ("How the item ended.", _EARLIER),
        "input[].phase": ("What the item was part of.", _EARLIER),
        "input[].caller": ("Who called the tool.", _EARLIER),
        "input[].async": ("Whether the answer went on meanwhile.", _EARLIER),
        "input[].summary": ("Thoughts of an earlier answer.", _EARLIER),
        "input[].encrypted_content": ("Thoughts of an earlier answer.", _EARLIER),
        "input[].content[].annotations": ("Sources of an earlier answer.", _EARLIER),
        "input[].content[].logprobs": ("Log probabilities of an earlier answer.", _EARLIER),
        "input[].content[].prompt_cache_breakpoint": ("What to keep of the prompt.", SAVING),
        "tools[].output_schema": ("What the tool answers.", "put it into the description"),
        "tools[].allowed_callers": ("Who may call the tool.", "the model alone calls tools here"),
    }, neutral={
        "text.verbosity": ("medium",), "input[].summary": ([],), "input[].content[].annotations": ([],),
        "input[].content[].logprobs": ([],),
    }),
)  # fmt: skip

INPUT: tuple[Row, ...] = (*_MESSAGES, *_BLOCKS, *_ITEMS)
