"""Calls that generate nothing (files, batches, reports, reviews): let in by the same door as those that do.

They pass every stage of the slot `admit` as a `Request` without messages and with `n` 0, and count as one request a
minute; they take no seat, no tokens and no money, so that a batch can be watched while its lines use all of these.
"""

from __future__ import annotations

import logging
import uuid

from starlette.requests import HTTPConnection

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.rails.stage_calls import failed_stage
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Caller, Request, SluicegateError

log = logging.getLogger("sluicegate.pipeline")


async def admitted(runtime: Runtime, connection: HTTPConnection) -> Caller:
    """Return whoever calls. Raises what the stages of `admit` raise, and `StageFailed` where one of them breaks."""
    key = api_key_of(connection)
    caller = runtime.identify(key) if runtime.keyed else Caller()
    call = Request(id=f"call-{uuid.uuid4().hex}", model="", messages=(), api_key=key, n=0, cache=False)
    for name, stage in runtime.pipeline.stages.admit:
        try:
            caller = await stage.admit(call, caller)
        except SluicegateError:
            raise
        except Exception as error:
            log.exception("stage %s of slot admit failed on %s", name, connection.scope["path"])
            raise failed_stage("admit", name, error) from error
    return caller
