"""`/v1/files`: what a batch reads and what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.datastructures import UploadFile

from gateway.admin import api_key_of
from gateway.api.serving import told
from gateway.batches import FileRecord
from plugins import RequestError

if TYPE_CHECKING:
    from gateway.house import House

PART_BYTES = 1 << 20


def add_files_routes(router: APIRouter, house: House) -> None:
    @router.post("/v1/files")
    async def upload_file(request: Request, response: Response) -> Any:
        tenant = house.identify(api_key_of(request)).tenant
        async with request.form(max_files=1, max_fields=8) as form:
            sent, purpose = form.get("file"), form.get("purpose")
            if not isinstance(sent, UploadFile):
                raise RequestError("`file` must be a file of a multipart form", param="file")
            response.headers.update(told(tuple(name for name in form if name not in ("file", "purpose"))))
            name, size = sent.filename or "file", sent.size or 0
            return _told(await house.batches.add_file(tenant, name, str(purpose or ""), _parts(sent.file), size))

    @router.get("/v1/files")
    async def list_files(request: Request, purpose: str | None = None) -> Any:
        found = await house.batches.files(house.identify(api_key_of(request)).tenant)
        data = [_told(record) for record in found if purpose in (None, record.purpose)]
        return {"object": "list", "data": data, "has_more": False}

    @router.get("/v1/files/{file_id}")
    async def get_file(request: Request, file_id: str) -> Any:
        return _told(await house.batches.file(file_id, house.identify(api_key_of(request)).tenant))

    @router.get("/v1/files/{file_id}/content")
    async def get_content(request: Request, file_id: str) -> Any:
        path = await house.batches.content(file_id, house.identify(api_key_of(request)).tenant)
        return FileResponse(path, media_type="application/octet-stream", headers={"x-content-type-options": "nosniff"})

    @router.delete("/v1/files/{file_id}")
    async def delete_file(request: Request, file_id: str) -> Any:
        await house.batches.remove_file(file_id, house.identify(api_key_of(request)).tenant)
        return {"id": file_id, "object": "file", "deleted": True}


def _parts(source: BinaryIO) -> Iterator[bytes]:
    while part := source.read(PART_BYTES):
        yield part


def _told(record: FileRecord) -> dict[str, Any]:
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
