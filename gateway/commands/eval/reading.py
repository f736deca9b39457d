"""What readers of foreign suites share: YAML, templates, files named in a suite, and fields that nobody reads.

What a form asks and this one cannot do is refused by name: what is silently left out would pass everything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from sluicegate.gateway.commands.eval.cases import text_of
from sluicegate.plugins import ConfigurationError

_TEMPLATES = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
_TEMPLATES.filters["dump"] = json.dumps  # Nunjucks' name
_TEXTS = (".txt", ".md", ".j2")
_TREES = (".json", ".yaml", ".yml")


def only(table: Any, known: Collection[str], where: str) -> dict[str, Any]:
    """Give back a table that holds nothing but `known` keys. Raises `ConfigurationError` that names another one."""
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: expected a table, found {type(table).__name__}")
    unread = sorted(str(key) for key in table if key not in known)
    if unread:
        raise ConfigurationError(
            f"{where}: {unread[0]!r} is not read; leave it out. Read are {', '.join(sorted(known))}"
        )
    return table


def filled(template: str, values: Mapping[str, Any], where: str) -> str:
    """Fill a template. Raises `ConfigurationError` where a value is missing."""
    try:
        return _TEMPLATES.from_string(template).render(values)
    except TemplateError as error:
        raise ConfigurationError(f"{where}: template {template[:60]!r}: {error}") from error


def filled_everywhere(value: Any, values: Mapping[str, Any], where: str) -> Any:
    """Fill the templates in all texts of a JSON value."""
    if isinstance(value, str):
        return filled(value, values, where)
    if isinstance(value, list):
        return [filled_everywhere(one, values, where) for one in value]
    if isinstance(value, dict):
        return {key: filled_everywhere(one, values, where) for key, one in value.items()}
    return value


def yaml_of(text: str, where: str) -> Any:
    """Read YAML. Raises `ConfigurationError`."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigurationError(f"{where}: YAML needs a library: pip install 'sluicegate[eval]'") from error
    try:
        return yaml.safe_load(text)
    except yaml.constructor.ConstructorError as error:
        raise ConfigurationError(
            f"{where}: {' '.join(str(error.problem).split())}; functions of Python are not run: write what they give"
        ) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{where} is no YAML: {' '.join(str(error).split())}") from error


def table_of(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a table. Raises `ConfigurationError`."""
    tree = yaml_of(text_of(path), str(path))
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{path}: expected a table, found {type(tree).__name__}")
    return tree


def referred(value: str, folder: Path, where: str) -> Any:
    """Return what `file://NAME` stands for: a text, or the value of a JSON or YAML file. Any other text is returned as
    it is. Raises `ConfigurationError`."""
    if not value.startswith("file://"):
        return value
    path = folder / value.removeprefix("file://")
    if path.suffix in _TREES:
        return yaml_of(text_of(path), str(path))
    if path.suffix in _TEXTS:
        return text_of(path)
    raise ConfigurationError(f"{where}: {value!r} is not read; files that are: {', '.join((*_TEXTS, *_TREES))}")
