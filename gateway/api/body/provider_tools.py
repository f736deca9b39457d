"""Refuse, by name, tools that a provider runs or has built into its own models: an agent mixes them with its own."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator

from sluicegate.gateway.api.body.unknown_fields import Listed
from sluicegate.plugins import RequestError

RUN_ELSEWHERE = frozenset(
    (
        *("web_search", "web_fetch", "x_search", "file_search", "code_interpreter", "code_execution"),
        *("image_generation", "mcp", "mcp_toolset", "namespace", "programmatic_tool_calling", "advisor"),
        *("tool_search", "tool_search_tool_bm25", "tool_search_tool_regex"),
    )
)
"""They run on a provider's servers, which also insert their results."""
BUILT_IN = frozenset(
    ("computer", "computer_use", "bash", "shell", "local_shell", "text_editor", "apply_patch", "memory")
)
"""The caller runs them, and only the provider's models know their arguments: no schema is sent."""
MOST_NAMED = 8
_DATED = re.compile(r"(_preview)?(_\d{8}|_\d{4}_\d{2}_\d{2})?\Z")


def check_provider_tools(tools: Any) -> Any:
    """Return `tools` as they are. Raises `RequestError` that names all tools of providers among them."""
    elsewhere: list[str] = []
    built_in: list[str] = []
    for place, tool in enumerate(tools if isinstance(tools, list) else ()):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and len(kind) <= 64:
            plain = _DATED.sub("", kind)
            for names, found in ((RUN_ELSEWHERE, elsewhere), (BUILT_IN, built_in)):
                if plain in names:
                    found.append(f"{kind!r} (`tools[{place}]`)")
    if elsewhere or built_in:
        raise RequestError(
            "; ".join([*_said(elsewhere, _WHY_ELSEWHERE), *_said(built_in, _WHY_BUILT_IN)]),
            param="tools",
            code="unsupported_tool",
        )
    return tools


_WHY_ELSEWHERE = "run on their provider's servers, no tool runs here: leave them out, or offer your own functions"
_WHY_BUILT_IN = "send no schema, which only their provider's models know: offer them as functions with a schema"


def _said(found: list[str], why: str) -> list[str]:
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return [f"{', '.join(found[:MOST_NAMED])}{more} {why}"] if found else []


P = TypeVar("P")
OfferedTools = Annotated[Listed[P], BeforeValidator(check_provider_tools)]
"""A list of tools that callers run."""
