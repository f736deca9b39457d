"""`/v1/files`: what a batch reads and what it wrote."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from sluicegate.gateway.admin import admitted
from sluicegate.gateway.api.body.multipart import read_form
from sluicegate.gateway.api.dialect import ignored_header
from sluicegate.gateway.batches import FileRecord
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import RequestError


def add_files_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/files")
    async def upload_file(request: Request, response: Response) -> Any:
        caller = await admitted(runtime, request)
        async with runtime.batches.upload(caller.tenant) as upload:
            form = await read_form(request, upload.write)
            if form.filename is None:
                raise RequestError("`file` must be a file of a multipart form", param="file")
            response.headers.update(ignored_header(tuple(name for name in form.values if name != "purpose")))
            return _shown(await runtime.batches.keep(upload, form.filename, form.values.get("purpose", "")))

    @router.get("/v1/files")
    async def list_files(request: Request, purpose: str | None = None) -> Any:
        found = await runtime.batches.files((await admitted(runtime, request)).tenant)
        data = [_shown(record) for record in found if purpose in (None, record.purpose)]
        return {"object": "list", "data": data, "has_more": False}

    @router.get("/v1/files/{file_id}")
    async def get_file(request: Request, file_id: str) -> Any:
        return _shown(await runtime.batches.file(file_id, (await admitted(runtime, request)).tenant))

    @router.get("/v1/files/{file_id}/content")
    async def get_content(request: Request, file_id: str) -> Any:
        path = await runtime.batches.content(file_id, (await admitted(runtime, request)).tenant)
        return FileResponse(path, media_type="application/octet-stream", headers={"x-content-type-options": "nosniff"})

    @router.delete("/v1/files/{file_id}")
    async def delete_file(request: Request, file_id: str) -> Any:
        await runtime.batches.remove_file(file_id, (await admitted(runtime, request)).tenant)
        return {"id": file_id, "object": "file", "deleted": True}


def _shown(record: FileRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.bytes,
        "created_at": record.created_s,
        "filename": record.filename,
        "purpose": record.purpose,
        "status": "processed",
        "expires_at": None,
    }
