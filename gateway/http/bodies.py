"""What the bodies of the gateway's own interfaces, those of `/admin` and what belongs to it, have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictBody(BaseModel):
    """Fields are those named and of their types: `true` is no number, and "on" is not true."""

    model_config = ConfigDict(extra="forbid", strict=True)
