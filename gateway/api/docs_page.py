"""`/docs`: the OpenAPI document as a page that fetches nothing from elsewhere, so that it works offline and runs no
foreign script beside an operator's key. The page is public and holds nothing; the document, `/openapi.json`, needs a
key where there are keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.static_page import add_static_page
from sluicegate.gateway.runtime import Runtime

STATIC = Path(__file__).with_name("docs")


def add_docs_page(app: FastAPI, runtime: Runtime) -> None:
    """Add the page, which is read once, at the start, and the document, which is made when it is first asked for."""
    add_static_page(app, "/docs", STATIC, "the page of the interface")
    made = asyncio.Lock()
    kept: list[bytes] = []

    @app.head("/openapi.json", include_in_schema=False)
    @app.get("/openapi.json", include_in_schema=False)
    async def document(request: Request) -> Response:
        runtime.identify(api_key_of(request))
        async with made:
            if not kept:  # the signatures of all routes take half a second
                kept.append(await asyncio.to_thread(lambda: bytes(JSONResponse(app.openapi()).body)))
        return Response(kept[0], media_type="application/json")
