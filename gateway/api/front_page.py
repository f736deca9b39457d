"""`/`: where what is. A page for browsers, the same as JSON for everybody else; public, and without a word on models,
keys or settings."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from sluicegate import __version__
from sluicegate.gateway.runtime import Runtime

PLACES: Mapping[str, str] = {
    "api": "/v1",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "console": "/console",
    "metrics": "/metrics",
    "ready": "/readyz",
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "vary": "accept",
}


def add_front_page(app: FastAPI, runtime: Runtime) -> None:
    console = runtime.settings.telemetry.console
    places = {name: path for name, path in PLACES.items() if name != "console" or console}
    page = _page(places)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def front(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(page, headers=_HEADERS)
        return JSONResponse({"name": "sluicegate", "version": __version__, **places}, headers=_HEADERS)


def _page(places: Mapping[str, str]) -> str:
    rows = "".join(
        f"<li>{name}: <code>{path}</code>" if name == "api" else f'<li>{name}: <a href="{path}">{path}</a>'
        for name, path in places.items()
    )
    style = "body{font:16px/1.6 system-ui;max-width:40rem;margin:4rem auto;padding:0 1rem;color-scheme:light dark}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Sluicegate</title><style>{style}</style><h1>Sluicegate</h1>"
        f"<p>Structured output and safety in one process, version {__version__}.<ul>{rows}</ul></html>"
    )
