"""Answer a body without a waiting client: how a batch runs each line."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.gateway.api.body.depth import check_depth
from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.batches import LineAnswer
from sluicegate.gateway.http.errors import OPENAI, ErrorForm, error_status
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Overloaded, RateLimited, RequestError, SluicegateError, StageFailed

log = logging.getLogger("sluicegate.batches")


class BatchLineRunner:
    """A batch's `Run`. Errors become answers, as over HTTP."""

    def __init__(self, runtime: Runtime, dialects: Iterable[Dialect]) -> None:
        self._runtime = runtime
        self._dialects = {dialect.path: dialect for dialect in dialects if dialect.in_batches}

    async def __call__(self, endpoint: str, body: Mapping[str, Any], key_id: str | None) -> LineAnswer:
        """Answer one line of a batch. Raises `RateLimited`, `Overloaded`, and `StageFailed` of a stage that is out of
        the way for a while: all say when to come back."""
        dialect = self._dialects.get(endpoint)
        if dialect is None:  # a batch of before the gateway was changed
            return _failed(RequestError(f"{endpoint!r} is not served in batches"), OPENAI)
        try:
            self._runtime.check_ready()
            if body.get("stream"):
                raise RequestError("in a batch nothing is streamed; leave `stream` out", param="stream")
            check_depth(body)
            self._runtime.reader.check(body)
            return await dialect.run_line(self._runtime, body, key_id)
        except (RateLimited, Overloaded):
            raise
        except SluicegateError as error:
            if isinstance(error, StageFailed) and error.retry_after_s is not None:  # nothing was tried with the line
                raise
            return _failed(error, dialect.errors)
        except Exception:
            log.exception("a line of a batch could not be answered")
            hidden = SluicegateError("the gateway failed on this request; the log of the gateway says why")
            return _failed(hidden, dialect.errors)


def _failed(error: SluicegateError, form: ErrorForm) -> LineAnswer:
    return LineAnswer(error_status(error), form.body(error))
