"""Pages whose files lie in a folder beside the code: read once at the start, and sent with a policy that forbids every
script, style and connection but the gateway's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import Response

from sluicegate.plugins import NotFound

KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def add_static_page(
    router: APIRouter | FastAPI, path: str, folder: Path, name: str, headers: Mapping[str, str] = HEADERS
) -> None:
    """Serve `folder` below `path`, which answers with its `index.html`; `name`: what the page is called in errors.

    Only what is read now is served: no path of a request ever reaches the file system. The routes raise `NotFound`.
    """
    found = [file for file in folder.rglob("*") if file.suffix in KINDS]
    files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in found}

    def answer(file: str) -> Response:
        if file not in files:
            raise NotFound(f"{name} has no file {file!r}")
        return Response(files[file], headers={**headers, "content-type": KINDS[Path(file).suffix]})

    @router.head(path, include_in_schema=False)
    @router.get(path, include_in_schema=False)
    async def page() -> Response:
        return answer("index.html")

    @router.head(f"{path}/{{file:path}}", include_in_schema=False)
    @router.get(f"{path}/{{file:path}}", include_in_schema=False)
    async def asset(file: str) -> Response:
        return answer(file)
