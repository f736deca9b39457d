"""Render chat templates as `transformers` does, importing little more than jinja2.

Templates come with checkpoints and are not trusted: they run in jinja2's sandbox, see plain JSON values alone, and are
bounded in steps, texts and time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols

from sluicegate.engine.text.template_bounds import MOST_CHARS, BoundedEnvironment, EndlessTemplate, budget
from sluicegate.plugins import ModelLoadError

_OPEN = "CONTINUE_FINAL_MESSAGE_TAG "
"""Marks the end of the last message, so that what the template writes after it can be cut off."""
_SHORT = [{"role": "user", "content": "Hello"}]
_THOUGHTS = ("reasoning_content", "thinking", "reasoning")
"""Names under which a message's reasoning may come."""


def render(
    template: str,
    messages: list[dict[str, Any]],
    /,
    *,
    continue_final_message: bool = False,
    tools: list[Any] | None = None,
    documents: list[Any] | None = None,
    add_generation_prompt: bool = False,
    **variables: Any,
) -> str:
    """Return the rendered text of a conversation. Raises `jinja2.TemplateError` if the template does, `ValueError` for
    no messages, or a last message that cannot stay open."""
    if not messages:
        raise ValueError("there are no messages to render; send at least one")
    if continue_final_message and add_generation_prompt:
        raise ValueError("a message that stays open is followed by no prompt for another; ask for one of both")
    compiled = _compiled(template)
    turns = [
        _with_thoughts({key: _plain(value) for key, value in turn.items() if value is not None}) for turn in messages
    ]
    last = turns[-1].get("content") if continue_final_message else None
    if continue_final_message:
        if not isinstance(last, str) or "content" not in template:
            raise ValueError("the last message has no text that this template could leave open")
        turns[-1]["content"] = last + _OPEN
    given = {name: _plain(value) for name, value in variables.items()}
    given |= {"messages": turns, "tools": _plain(tools), "documents": _plain(documents)}
    text = _written(compiled, {**given, "add_generation_prompt": add_generation_prompt})
    return text if last is None else _left_open(text, last)


def _written(compiled: jinja2.Template, given: Mapping[str, Any]) -> str:
    """Return what a template makes of its variables. Raises `EndlessTemplate` past the bounds."""
    pieces, size = [], 0
    with budget():
        for piece in compiled.generate(given):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_CHARS:
                raise EndlessTemplate(f"it writes more than {MOST_CHARS} characters")
    return "".join(pieces)


def refuse_malformed(templates: Any, where: str) -> None:
    """Raise `ModelLoadError` for a chat template that cannot be parsed, or does not come to an end over one short
    message: else each caller would be refused for it. `templates`: one, several by name, or none."""
    named = templates if isinstance(templates, Mapping) else {"chat_template": templates}
    for name, template in named.items():
        try:
            if template:
                render(template, _SHORT, add_generation_prompt=True)
        except EndlessTemplate as error:
            raise ModelLoadError(
                f"{where!r}: its chat template {name!r} does not come to an end over one short message: "
                f"{error.message}. Fetch it anew, or correct it"
            ) from error
        except jinja2.TemplateSyntaxError as error:
            raise ModelLoadError(
                f"{where!r}: line {error.lineno} of its chat template {name!r} is no Jinja: {error.message}. Fetch it "
                "anew, or correct it"
            ) from error
        except Exception:
            continue


def _left_open(text: str, last: str) -> str:
    """Cut the text off after the last message's content."""
    mark = _OPEN.strip()
    if last.strip() not in text or mark not in text:
        raise ValueError("the template does not show the last message whole, so it cannot be left open")
    end = text.rindex(mark)
    return text[:end] if text[end : end + len(_OPEN)] == _OPEN else text[:end].rstrip()


def _with_thoughts(turn: dict[str, Any]) -> dict[str, Any]:
    said = next((turn[name] for name in _THOUGHTS if turn.get(name) is not None), None)
    return turn if said is None else {"thinking": said, **turn, "reasoning_content": said}


def _plain(value: Any) -> Any:
    """Return a copy of a JSON value made of builtin types alone, so that templates cannot call methods of
    subclasses."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return f"<{type(value).__name__}>"


class _Generation(Extension):
    """Parses `{% generation %}`, by which training marks the model's output, and renders its contents."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(jinja2.utils.Namespace):
    """A jinja2 namespace that refuses names beginning with an underscore, which could lead into the interpreter."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, args = args[0], args[1:]
        values = dict(*args, **kwargs)
        for name in values:
            _refuse_inner(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_inner(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def _refuse_inner(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a chat template cannot keep {name!r}: names begin with no underscore")


class _Dictionaries:
    """`dict` for templates: makes dictionaries without exposing the class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


@cache
def _compiled(template: str) -> jinja2.Template:
    environment = BoundedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _raise,
        "strftime_now": _now,
        "dict": _Dictionaries(),
        "namespace": _Namespace,
    }
    return environment.bounded(template)  # type: ignore[no-any-return]


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
