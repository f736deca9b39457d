"""What the console's lists and figures can be asked for, as parameters of a query."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sluicegate.gateway.history import HistoryFilter
from sluicegate.plugins import RequestError

REVIEW = "review"
Text = Annotated[str, Field(max_length=256)]
Moment = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class RequestFilter(BaseModel):
    """The fields of `HistoryFilter`; empty ones ask for nothing."""

    model_config = ConfigDict(extra="forbid")
    from_s: Moment | None = None
    until_s: Moment | None = None
    model: Text = ""
    version: Text = ""
    key: Text = ""
    tenant: Text = ""
    route: Text = ""
    feature: Text = ""
    outcome: Text = ""
    ended: Text = ""
    rail: Text = ""
    verdict: Text = ""
    q: Text = ""
    cached: bool | None = None
    met: bool | None = None
    over_ms: Milliseconds | None = None
    first_over_ms: Milliseconds | None = None
    token_over_ms: Milliseconds | None = None

    def wanted(self) -> HistoryFilter:
        """Return the filters as the history takes them. Raises `RequestError`."""
        try:
            return HistoryFilter(**self.model_dump(include=set(RequestFilter.model_fields)))
        except ValueError as error:
            raise RequestError(str(error)) from error


class RequestPage(RequestFilter):
    """`before`: what the page before named as `next`."""

    before: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
