"""A body of an agent as the SDK's server is given it: the arguments of a large call are left out of it.

That server parses on the event loop what it is given, and makes a model of it: 12 ms for a schema of a megabyte. The
gateway has read such a body in a thread before, and takes the arguments from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.plugins import RequestTooLarge


@dataclass(frozen=True, slots=True)
class AgentBody:
    """`text`: what the SDK's server reads. `nbytes`: of the body as it came. `arguments`: those that `text` lacks; None
    where it has them itself."""

    text: bytes
    nbytes: int
    arguments: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, body: bytes, tree: Mapping[str, Any], most: int) -> AgentBody:
        """Leave the arguments out of a body of more than `most` bytes, read as `tree`. Raises `RequestTooLarge` where
        what is left is larger still: nothing that is served here needs that."""
        if len(body) <= most:
            return cls(body, len(body))
        params = tree.get("params")
        arguments = params.get("arguments") if isinstance(params, Mapping) else None
        if isinstance(params, Mapping) and isinstance(arguments, Mapping):
            tree = {**tree, "params": {**params, "arguments": {}}}
        text = json.dumps(tree).encode()
        if len(text) > most:
            raise RequestTooLarge(
                f"the message has {len(text)} bytes beside the arguments of a call; this gateway reads at most {most}: "
                "send less in _meta and other members",
                param="params",
            )
        return cls(text, len(body), arguments if isinstance(arguments, Mapping) else None)
