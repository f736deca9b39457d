"""Versioned templates: a system text, examples and a frame for the question, rendered in a sandbox.

A file `NAME@VERSION.toml` of the folder:

    system = "You answer in {{ language }}."       # stable: the same for every request with the same variables
    user = "Documents:\\n{{ context }}\\n\\nQuestion: {{ question }}"
    context_tokens = 800
    [[examples]]                                   # stable as well
    user = "..."
    assistant = "..."
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sluicegate.gateway.config import read_toml
from sluicegate.plugins import ConfigurationError, NotFound, RequestError, read_settings

MAX_RENDERED_CHARS = 400_000
CONTEXT, QUESTION = "context", "question"
PLAIN_FRAME = "{% if context %}{{ context }}\n\n{% endif %}{{ question }}"
_NAME = re.compile(r"(?P<name>[A-Za-z0-9._-]+)@(?P<version>[A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True)
class TemplateExample:
    user: str
    """A question."""
    assistant: str
    """The answer that the model is shown."""


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """A file of the folder, or a table below `[prompts.templates]`."""

    system: str = ""
    """The system message, with variables in `{{ }}`; empty = none."""
    user: str = PLAIN_FRAME
    """Frame of the question: `{{ question }}`, and `{{ context }}` for the documents."""
    examples: tuple[TemplateExample, ...] = ()
    """Put between the system message and the question."""
    context_tokens: int | None = None
    """Most tokens of documents; none = `context_share` of the model's context."""


@dataclass(frozen=True, slots=True)
class Template:
    """`version` names its text: what the cache and the traces go by."""

    id: str
    version: str
    system: str
    user: str
    examples: tuple[tuple[str, str], ...]
    context_tokens: int | None


class Templates:
    """All templates, read once. Raises `ConfigurationError` for one that is none."""

    def __init__(self, folder: str, inline: Mapping[str, Any]) -> None:
        self.environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True)
        self._templates: dict[str, Template] = {}
        for path in sorted(Path(folder).glob("*.toml")) if folder else ():
            self._add(path.stem, read_toml(path, "template"))
        if folder and not Path(folder).is_dir():
            raise ConfigurationError(f"[prompts] folder: there is no folder {folder!r}")
        for name, table in inline.items():
            self._add(name, table)

    @property
    def names(self) -> list[str]:
        return sorted(self._templates)

    def get(self, wanted: str) -> Template:
        """Return the template `name@version`, or the newest version of `name`. Raises `NotFound` that lists what there
        is."""
        if wanted in self._templates:
            return self._templates[wanted]
        versions = [name for name in self._templates if name.partition("@")[0] == wanted]
        if not versions:
            known = ", ".join(self.names) or "none"
            raise NotFound(f"there is no template {wanted!r}; there are: {known}", param="sluicegate.template")
        return self._templates[max(versions, key=_order)]

    def _add(self, name: str, table: Any) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"template {name!r}: a name looks like invoice@1")
        given = read_settings(TemplateSettings, table, f'prompts.templates."{name}"')
        for text in (given.system, given.user):
            self._check(name, text)
        examples = tuple((one.user, one.assistant) for one in given.examples)
        digest = hashlib.sha256(json.dumps([given.system, given.user, examples]).encode()).hexdigest()[:12]
        self._templates[name] = Template(
            name, f"{name}+{digest}", given.system, given.user, examples, given.context_tokens
        )

    def _check(self, name: str, text: str) -> None:
        try:
            self.environment.parse(text)
        except TemplateSyntaxError as error:
            raise ConfigurationError(f"template {name!r}: {error.message} (line {error.lineno})") from error


def rendered(environment: ImmutableSandboxedEnvironment, text: str, variables: Mapping[str, Any], template: str) -> str:
    """Render `text` with `variables`. Raises `RequestError` for a variable that is missing, or a text that grows
    without end."""
    pieces, size = [], 0
    try:
        for piece in environment.from_string(text).generate(**variables):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_RENDERED_CHARS:
                raise RequestError(f"template {template!r} makes more than {MAX_RENDERED_CHARS} characters of this")
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise RequestError(
            f"template {template!r} cannot be filled: {error}; send what is missing in `sluicegate.variables`",
            param="sluicegate.variables",
        ) from error
    return "".join(pieces)


def _order(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key of a version: 2 before 10, letters as they are."""
    parts = re.findall(r"\d+|\D+", name.partition("@")[2])
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
