"""Render a request's messages and JSON Schema as a prompt; training builds its prompts here too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from jinja2.exceptions import TemplateError

from sluicegate.engine.text.chat_rendering import render
from sluicegate.engine.text.tool_prompt import (
    MARKS,
    as_functions,
    knows_tools,
    tool_instruction,
    with_functions,
    without_functions,
)
from sluicegate.plugins import RequestError
from sluicegate.plugins.control_tokens import control_tokens, defused

MAX_SKETCH_CHARS = 1600
_UNBOUNDED = "transformers.tokenization_utils_base"
"""Module of the renderer that bounds nothing: its templates go through ours, which writes the same."""
_MAX_DESCRIPTION_CHARS = 80
_MAX_ENUM_VALUES = 40
_MAX_DEPTH = 12
_MAX_NODES = 600
_PLAIN_KEY = re.compile(r"[\w$-]+")
RESERVED_VARIABLES = frozenset(
    {"messages", "conversation", "tools", "documents", "schema_sketch", "add_generation_prompt", "chat_template"}
    | {"continue_final_message", "tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict"}
    | {"return_assistant_tokens_mask", "tokenizer_kwargs", "processor_kwargs", "self", "raise_exception"}
    | {"strftime_now", "bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"}
    | {"additional_special_tokens", "image_token", "audio_token", "video_token"}
)
"""Variables of a chat template and its renderer that callers may not set: they could replace the template, or the
conversation that was screened."""


SWITCHES = frozenset({"enable_thinking", "thinking"})
"""Variables that switch reasoning on; a request for reasoning sets them for every model."""


class ChatTokenizer(Protocol):
    """The part of the transformers tokenizer interface that this module needs."""

    chat_template: Any
    all_special_tokens: list[str]

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any: ...


def schema_sketch(schema: Mapping[str, Any] | bool, *, max_chars: int = MAX_SKETCH_CHARS) -> str:
    """Return one compact line such as `{name:string,total:number,paid?:boolean,due:date|null,tags:[string]}`.

    A property that is not required is marked `?`; a string with a `format` shows the format's name instead of `string`;
    descriptions follow their type in parentheses. It is a hint for the model, not a contract (bounds and patterns are
    left out; the grammar enforces them). Recursive references show the definition's name, and the result has at most
    `max_chars` characters: descriptions go first, then depth, then the tail is cut with `...`.
    """
    for described, depth in ((True, _MAX_DEPTH), (False, _MAX_DEPTH), (False, 3), (False, 1)):
        line = _Sketcher(schema, described).sketch(schema, depth)
        if len(line) <= max_chars:
            return line
    return line[: max(0, max_chars - 3)] + "..."


def render_chat(
    tokenizer: ChatTokenizer,
    messages: Sequence[Mapping[str, Any]],
    *,
    schema: Mapping[str, Any] | bool | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    reasoning: bool = False,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """Return the prompt text for `messages` (each `{"role", "content"}`, perhaps with `tool_calls` of `{"id", "name",
    "arguments"}`), with the schema and the tools shown the way the model expects.

    A chat template that mentions the variable `schema_sketch` gets the sketch; for any other template the schema is
    written out in the system message. `tools` (each `{"name", "description", "parameters"}`): see `tool_prompt`. A
    template that can switch thinking does as `reasoning` says. Special tokens spelled out in a message, and in what
    users and tools say the marks of calls, are defused (a blank after their first character), so that a document can
    never end a turn. Encode the result with `add_special_tokens=False`.

    `continue_final_message`: the last message stays open. `variables` are the template's own, by name; their texts are
    defused too. Raises `RequestError` for one that the template does not know, unless it is false or null.
    """
    template = str(tokenizer.chat_template or "")
    turns = [_defused(tokenizer, message) for message in messages]
    extra: dict[str, Any] = _variables(tokenizer, template, variables) if variables else {}
    if "enable_thinking" in template:
        extra["enable_thinking"] = reasoning
    if continue_final_message:
        add_generation_prompt, extra["continue_final_message"] = False, True
    if knows_tools(template):
        turns = with_functions(turns)
        extra |= {"tools": _harmless(tokenizer, as_functions(tools), ())} if tools else {}
    else:
        turns = without_functions(turns)
    if "schema_sketch" in template:
        sketch = _sketch(schema, tools)
        shown = None if sketch is None else _defuse(tokenizer, sketch)
        return _apply(tokenizer, turns, add_generation_prompt, schema_sketch=shown, **extra)
    added = [tool_instruction(tools)] if tools and not knows_tools(template) else []
    added += [] if schema is None else [_schema_instruction(schema)]
    return _rendered(tokenizer, turns, _defuse(tokenizer, "\n\n".join(added)), add_generation_prompt, extra)


def _rendered(
    tokenizer: ChatTokenizer, turns: list[dict[str, Any]], added: str, prompting: bool, extra: Mapping[str, Any]
) -> str:
    if not tokenizer.chat_template:
        turns = _with_system(turns, added) if added else turns
        asked: Any = tokenizer
        return _beginning(asked) + _without_template(turns, prompting)
    if not added:
        return _apply(tokenizer, turns, prompting, **extra)
    try:
        return _apply(tokenizer, _with_system(turns, added), prompting, **extra)
    except TemplateError:  # some templates (Gemma, early Mistral) refuse the system role
        return _apply(tokenizer, _with_user(turns, added), prompting, **extra)


def _apply(tokenizer: ChatTokenizer, turns: list[dict[str, Any]], prompting: bool, **extra: Any) -> str:
    own = getattr(type(tokenizer), "apply_chat_template", None)
    if isinstance(tokenizer.chat_template, str) and getattr(own, "__module__", "") == _UNBOUNDED:
        tokens: Mapping[str, Any] = getattr(tokenizer, "special_tokens_map", {})
        return render(tokenizer.chat_template, turns, **{**tokens, "add_generation_prompt": prompting, **extra})
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompting, **extra))


def _sketch(schema: Mapping[str, Any] | bool | None, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the sketch of the answer; of the arguments alone if a single tool is the only possible answer."""
    if not tools:
        return None if schema is None else schema_sketch(schema)
    if len(tools) == 1 and schema is None:
        return schema_sketch(tools[0]["parameters"])
    calls = [f"{{name:{_literal(tool['name'])},arguments:{schema_sketch(tool['parameters'])}}}" for tool in tools]
    return _union([*calls, *([] if schema is None else [schema_sketch(schema)])])[:MAX_SKETCH_CHARS]


def _schema_instruction(schema: Mapping[str, Any] | bool) -> str:
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return f"Answer with one JSON value that conforms to this JSON Schema, and nothing else:\n{text}"


def _with_system(turns: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    if turns and turns[0]["role"] == "system":
        return [{**turns[0], "content": f"{turns[0]['content']}\n\n{text}"}, *turns[1:]]
    return [{"role": "system", "content": text}, *turns]


def _with_user(turns: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    rest = list(turns)
    if rest and rest[0]["role"] == "system":
        text = f"{rest.pop(0)['content']}\n\n{text}"
    if rest and rest[0]["role"] == "user":
        text = f"{text}\n\n{rest.pop(0)['content']}"
    return [{"role": "user", "content": text}, *rest]


@lru_cache(maxsize=8)
def _beginning(tokenizer: Any) -> str:
    """Return the mark that the tokenizer puts before every text, "" for none. A model that never saw a text without it
    says nonsense of one; a chat template would write it."""
    mark = str(getattr(tokenizer, "special_tokens_map", {}).get("bos_token") or "")
    if not mark:
        return ""
    marked, text, plain = (
        list(tokenizer(each, add_special_tokens=special)["input_ids"])
        for each, special in ((mark, False), ("a", True), ("a", False))
    )
    return mark if text == [*marked, *plain] or text[:-1] == [*marked, *plain] else ""


def _without_template(turns: list[dict[str, Any]], prompting: bool) -> str:
    lines = [f"{turn['role']}: {turn['content']}" for turn in turns]
    return "\n\n".join(lines + (["assistant:"] if prompting else []))


def _variables(tokenizer: ChatTokenizer, template: str, given: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in given.items():
        if name in RESERVED_VARIABLES or not re.search(rf"\b{re.escape(name)}\b", template):
            if value is None or value is False or name in SWITCHES:
                continue
            raise RequestError(
                f"`chat_template_kwargs.{name}`: the chat template of this model has no such variable; leave it out",
                param=f"chat_template_kwargs.{name}",
                code="unsupported_parameter",
            )
        found[name] = _harmless(tokenizer, value)
    return found


def _harmless(tokenizer: ChatTokenizer, value: Any, marks: Sequence[str] = MARKS) -> Any:
    """Return a copy of a JSON value with special tokens defused in every text, since a template may put it anywhere."""
    if isinstance(value, str):
        return _defuse(tokenizer, value, marks)
    if isinstance(value, Mapping):
        return {_harmless(tokenizer, key, marks): _harmless(tokenizer, item, marks) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(tokenizer, item, marks) for item in value]
    return value


def _defused(tokenizer: ChatTokenizer, message: Mapping[str, Any]) -> dict[str, Any]:
    marks = MARKS if message["role"] in ("user", "tool") else ()
    return {name: value if name == "role" else _harmless(tokenizer, value, marks) for name, value in message.items()}


def _defuse(tokenizer: ChatTokenizer, text: str, marks: Sequence[str] = ()) -> str:
    return defused(text, (*control_tokens(tokenizer), *marks))


class _Sketcher:
    """Renders one schema; `_nodes` bounds the work on schemas whose references fan out exponentially."""

    def __init__(self, root: Mapping[str, Any] | bool, described: bool) -> None:
        self._root = root
        self._described = described
        self._nodes = _MAX_NODES
        self._open_refs: list[str] = []

    def sketch(self, schema: Any, depth: int) -> str:
        self._nodes -= 1
        if not isinstance(schema, Mapping) or not schema:
            return "never" if schema is False else "any"
        if self._nodes < 0:
            return "any"
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), depth)
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(schema.get("enum"), list):
            return _enumeration(schema["enum"])
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return _union(self.sketch(option, depth) for option in schema[keyword])
        if isinstance(schema.get("allOf"), list):
            return self._all_of(schema, depth)
        return self._typed(schema, depth)

    def _reference(self, ref: str, depth: int) -> str:
        name = ref.rsplit("/", 1)[-1].lstrip("#") or "root"
        if ref in self._open_refs or depth <= 0:
            return name
        self._open_refs.append(ref)
        try:
            target = _resolve(self._root, ref)
            return name if target is None else self.sketch(target, depth)
        finally:
            self._open_refs.pop()

    def _all_of(self, schema: Mapping[str, Any], depth: int) -> str:
        parts = [part for part in schema["allOf"] if isinstance(part, Mapping)]
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        if "properties" in rest or "type" in rest:
            parts.append(rest)
        return "&".join(dict.fromkeys(self.sketch(part, depth) for part in parts)) or "any"

    def _typed(self, schema: Mapping[str, Any], depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union(self._typed({**schema, "type": one}, depth) for one in kind)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, depth)
        if kind == "array" or (kind is None and "items" in schema):
            return self._array(schema, depth)
        if kind == "string":
            return str(schema.get("format") or "string")
        return str(kind) if kind else "any"

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        if depth <= 0:
            return "{...}"
        if isinstance(properties, Mapping) and properties:
            required = schema.get("required") or ()
            return "{" + ",".join(self._property(k, v, k in required, depth) for k, v in properties.items()) + "}"
        values = schema.get("additionalProperties")
        return "{string:" + self.sketch(values, depth - 1) + "}" if isinstance(values, Mapping) else "{...}"

    def _property(self, name: str, schema: Any, required: bool, depth: int) -> str:
        key = name if _PLAIN_KEY.fullmatch(name) else _literal(name)
        note = _note(schema) if self._described and isinstance(schema, Mapping) else ""
        return f"{key}{'' if required else '?'}:{self.sketch(schema, depth - 1)}{note}"

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        first = schema.get("prefixItems")
        if isinstance(first, list) and first:
            return "[" + ",".join(self.sketch(item, depth - 1) for item in first) + "]"
        return "[" + self.sketch(schema.get("items", True), depth - 1) + "]"


def _resolve(root: Any, ref: str) -> Any:
    """Return the target of a local reference (`#`, `#/a/b`), or None when it is not local or leads nowhere."""
    if not ref.startswith("#"):
        return None
    target = root
    for part in ref[1:].strip("/").split("/") if ref.strip("#/") else []:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and part.isdigit() and int(part) < len(target):
            target = target[int(part)]
        elif isinstance(target, Mapping) and part in target:
            target = target[part]
        else:
            return None
    return target


def _note(schema: Mapping[str, Any]) -> str:
    text = schema.get("description")
    if not isinstance(text, str) or not text.strip():
        return ""
    text = " ".join(text.split())
    return f"({text[:_MAX_DESCRIPTION_CHARS].rstrip()}{'...' if len(text) > _MAX_DESCRIPTION_CHARS else ''})"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _enumeration(values: list[Any]) -> str:
    shown = [_literal(value) for value in values[:_MAX_ENUM_VALUES]]
    return "|".join(shown + (["..."] if len(values) > _MAX_ENUM_VALUES else [])) or "never"


def _union(parts: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(parts)) or "never"
