"""Keep the arguments of large calls out of the body that the SDK's server parses.

The SDK parses and validates a body on the event loop, which takes 12 ms for a schema of a megabyte. The gateway has
parsed such a body in a thread already, and takes the arguments from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.plugins import RequestTooLarge


@dataclass(frozen=True, slots=True)
class AgentBody:
    """The body of a request. `text`: what the SDK's server reads. `nbytes`: size of the original body. `arguments`:
    those left out of `text`; None if it has them."""

    text: bytes
    nbytes: int
    arguments: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, body: bytes, tree: Mapping[str, Any], most: int) -> AgentBody:
        """Leave the arguments out of a body of more than `most` bytes; `tree`: the parsed body. Raises
        `RequestTooLarge` if the rest is still larger, which no method served here needs."""
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
