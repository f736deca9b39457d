"""Fields inside tools, shapes and our own object, by path: `tools[].name`."""

from __future__ import annotations

from sluicegate.gateway.fields.nested_input import ALWAYS, INPUT, rows
from sluicegate.gateway.fields.row import Row, says

_BOTH = "chat completions"
_ALL4 = "chat completions responses messages"


_TOOLS = (
    *rows("served", "chat responses messages", {
        "tools[].type": "`function`, or `custom`: a tool that takes a text; in messages `custom`.",
        "tool_choice.type": "How tools are chosen.",
    }),
    *rows("served", "responses messages", {
        "tools[].name": "The tool's name.",
        "tools[].description": "What it does, for the model.",
        "tool_choice.name": "The tool that must be called.",
    }),
    *rows("served", "chat", {
        "tools[].function": "The tool.",
        "tools[].function.name": "The tool's name.",
        "tools[].function.description": "What it does, for the model.",
        "tools[].function.parameters": "The schema of its arguments, which every call satisfies.",
        "tools[].function.strict": ALWAYS,
        "tool_choice.function": "The tool that must be called.",
        "tool_choice.function.name": "The tool's name.",
        "tool_choice.allowed_tools": "The tools that may be called.",
        "tool_choice.allowed_tools.mode": "Whether one must be called.",
        "tool_choice.allowed_tools.tools": "The tools.",
        "tool_choice.allowed_tools.tools[].type": "`function` or `custom`.",
        "tool_choice.allowed_tools.tools[].function": "A tool.",
        "tool_choice.allowed_tools.tools[].function.name": "The tool's name.",
        "tools[].custom": "A tool that takes a text.",
        "tools[].custom.name": "The tool's name.",
        "tools[].custom.description": "What it does, for the model.",
        "tools[].custom.format": "What its text looks like.",
        "tools[].custom.format.type": "`text` or `grammar`.",
        "tools[].custom.format.grammar": "The grammar that every text follows; the model is shown it too.",
        "tools[].custom.format.grammar.syntax": "`lark` or `regex`.",
        "tools[].custom.format.grammar.definition": "The grammar.",
        "tool_choice.custom": "The tool that must be called.",
        "tool_choice.custom.name": "The tool's name.",
        "tool_choice.allowed_tools.tools[].custom": "A tool.",
        "tool_choice.allowed_tools.tools[].custom.name": "The tool's name.",
    }),
    *rows("reported", "chat", {
        "tools[].function.defer_loading": ("Show the tool when it is looked for.", "tools are shown at once"),
    }, neutral={"tools[].function.defer_loading": (False,)}),
    *rows("reported", "messages", {
        "tools[].strict": ("Enforce the arguments.", "they always are"),
    }, "Anthropic", {"tools[].strict": (True,)}),
    *rows("reported", "chat responses messages", {
        "tools[].defer_loading": ("Show the tool when it is looked for.", "tools are shown at once"),
    }, neutral={"tools[].defer_loading": (False,)}),
)  # fmt: skip

_SHAPES = (
    *rows("served", _BOTH, {
        "response_format.type": "`text`, `json_object`, `json_schema` or `structural_tag`; TGI's `json` and `regex`.",
        "response_format.json_schema": "The schema, in `schema`, and its name.",
        "response_format.json_schema.name": "The schema's name.",
        "response_format.json_schema.schema": "The schema.",
        "response_format.json_schema.strict": ALWAYS,
        "response_format.schema": "A schema beside `json_object`, as some servers take it.",
        "response_format.value": "TGI's: a schema beside `json` and `json_object`, a pattern beside `regex`.",
    }),
    *rows("reported", _BOTH, {
        "response_format.json_schema.description": ("What the schema is for.", "models read the schema's own"),
    }),
    *rows("served", _BOTH, {
        "structured_outputs.json": "The answer conforms to this schema, an object or JSON text of one.",
        "structured_outputs.regex": "The answer matches this regular expression as a whole.",
        "structured_outputs.choice": "The answer is one of these texts.",
        "structured_outputs.grammar": "The answer is a text of this grammar, in Lark or GBNF.",
        "structured_outputs.json_object": "The answer is a JSON object.",
        "structured_outputs.structural_tag": "Free text with constrained parts.",
        "structured_outputs.whitespace_pattern": "What may stand between the parts of JSON.",
        "structured_outputs.disable_any_whitespace": "Nothing stands between the parts of JSON.",
        "structured_outputs.disable_additional_properties":
            "Objects have no property that their schema does not name, unless it says "
            "`additionalProperties`.",
        "repetition_detection.max_pattern_size": "Tokens of the longest pattern; 0 = never, nor as the engine is set.",
        "repetition_detection.min_pattern_size": "Tokens of the shortest pattern.",
        "repetition_detection.min_count": "How often it must stand in a row, 2 or more.",
    }, "vLLM"),
    *rows("served", "chat completions responses", {"stream_options.include_usage": "A last chunk with what was used."}),
    *rows("reported", "chat completions responses", {
        "stream_options.include_obfuscation": ("Chunks of equal length.", "chunks are as long as their text"),
    }, neutral={"stream_options.include_obfuscation": (False,)}),
    *rows("refused", "chat completions responses", {
        "stream_options.continuous_usage_stats": ("What was used so far, in each chunk.", "the last chunk says it"),
    }, "vLLM", {"stream_options.continuous_usage_stats": (False,)}),
    *rows("served", "chat responses", {
        "reasoning.effort": "Any level but `none` turns thoughts on.",
        "reasoning.enabled": "Thoughts on or off.",
    }),
    *rows("refused", "chat responses", {
        "reasoning.max_tokens": ("The most tokens of thoughts.", "`max_tokens` bounds thoughts and answer together"),
        "reasoning.exclude": ("Thoughts do not leave.", "thoughts that are made always leave"),
    }, "OpenRouter", {"reasoning.exclude": (False,)}),
)  # fmt: skip

_OURS = rows("served", _ALL4, {
    "sluicegate.explain": "Tell what each stage decided and how long it took, and how each token came about.",
    "sluicegate.confidence": "Tell the probability of each JSON value under the masks; no kept answer is used.",
    "sluicegate.partial": "Tell in a stream which JSON values are complete.",
    "sluicegate.cache": "`false`: neither read nor keep; or `semantic`, `threshold`, `tags`.",
    "sluicegate.cache.semantic": "An answer to the same question in other words will do.",
    "sluicegate.cache.threshold": "How near its question must be.",
    "sluicegate.cache.tags": "Names by which the answer can be withdrawn later.",
    "sluicegate.grammar": "Options of the compiler, see docs/grammar.md.",
    "sluicegate.deadline_s": "Seconds that generating may take, waiting included.",
}, "Sluicegate")  # fmt: skip

_OF_MESSAGES = tuple(
    Row(path, about, says("chat responses messages", "completions"),
        "it needs messages; a prompt is read as it is: use /v1/chat/completions", neutral, "Sluicegate")
    for path, about, neutral in (
        ("sluicegate.reasoning", "Think first.", (False,)),
        ("sluicegate.template", "A template of the operator's, `name` or `name@version`.", ()),
        ("sluicegate.variables", "What stands for the template's names.", ({},)),
        ("sluicegate.context", "Documents for the question.", ([],)),
        ("sluicegate.context[].text", "A document's text.", ()),
        ("sluicegate.context[].source", "Where it is from.", ("",)),
        ("sluicegate.context[].score", "How good it is, in a measure of the caller's.", (0,)),
        ("sluicegate.retrieve", "Find documents for the question, or do not (docs/retrieval.md).", ()),
        ("sluicegate.context_tokens", "How many tokens the documents may have together.", ()),
    )
)  # fmt: skip

NESTED: tuple[Row, ...] = (*INPUT, *_TOOLS, *_SHAPES, *_OURS, *_OF_MESSAGES)
