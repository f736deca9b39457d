"""`/docs`: the OpenAPI document as a page that fetches nothing from elsewhere, so that it works offline and runs no
foreign script beside an operator's key. The page is public and holds nothing; the document, `/openapi.json`, needs a
key where there are keys."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.runtime import Runtime

_PAGE = Path(__file__).with_name("docs.html")


def add_docs_page(app: FastAPI, runtime: Runtime) -> None:
    page = _PAGE.read_text("utf-8")
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

    @app.head("/docs", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; connect-src 'self'; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        headers = {"content-security-policy": policy, "x-content-type-options": "nosniff"}
        return HTMLResponse(page.replace("NONCE", nonce), headers=headers)
