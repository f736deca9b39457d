"""POST JSON to an address that the operator names, and read back no more than is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:  # a fifth of a second to import: only those who ask others need it
    import httpx

MAX_BYTES = 4 * 1024 * 1024


class Address:
    """A client of one URL. It follows no redirect and unpacks nothing."""

    def __init__(self, url: str, *, api_key: str | None = None, max_bytes: int = MAX_BYTES) -> None:
        import httpx

        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        headers["accept-encoding"] = "identity"
        self._url = url
        self._max_bytes = max_bytes
        self._client = httpx.AsyncClient(headers=headers, timeout=None, follow_redirects=False, trust_env=False)

    async def ask(self, body: Any) -> Any:
        """Post `body` and return the JSON of the response. Raises `httpx.HTTPError`, and `ValueError` for a status
        other than 200, too many bytes, or invalid JSON. The caller must limit the time."""
        async with self._client.stream("POST", self._url, json=body) as answer:
            if answer.status_code != 200:
                raise ValueError(f"it answered status {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("it packed its answer, which was not asked for")
            return orjson.loads(await self._body(answer))

    async def _body(self, answer: httpx.Response) -> bytes:
        body = bytearray()
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > self._max_bytes:
                raise ValueError(f"it answered more than {self._max_bytes} bytes")
        return bytes(body)

    async def close(self) -> None:
        await self._client.aclose()
