"""`/docs`: the OpenAPI document as a page that fetches nothing from elsewhere, so that it works offline and runs no
foreign script beside an operator's key. The page is public and holds nothing; the document, `/openapi.json`, needs a
key where there are keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound

STATIC = Path(__file__).with_name("docs")
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff", "cache-control": "no-cache"}


def add_docs_page(app: FastAPI, runtime: Runtime) -> None:
    """Add the page, which is read once, at the start, and the document, which is made when it is first asked for."""
    files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in _KINDS}
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
    async def docs() -> Response:
        return _file(files, "index.html")

    @app.head("/docs/{name}", include_in_schema=False)
    @app.get("/docs/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        return _file(files, name)


def _file(files: dict[str, bytes], name: str) -> Response:
    """Return a file of the page. Raises `NotFound`."""
    if name not in files:
        raise NotFound(f"the page of the interface has no file {name!r}")
    return Response(files[name], headers={**_HEADERS, "content-type": _KINDS[Path(name).suffix]})
