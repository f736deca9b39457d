"""Resolve names of servers, refusing private addresses at the moment of connecting unless the operator allows them."""

from __future__ import annotations

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from sluicegate.gateway.upstream.settings import is_public


class PublicOnly(AbstractResolver):
    """Resolves as the system does and drops addresses that are not public. The connection goes to the resolved address,
    so that a name cannot change between the check and the call."""

    def __init__(self) -> None:
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        public = [result for result in found if is_public(result["host"])]
        if not public:
            raise OSError(None, f"{host} leads to addresses that are not public; set allow_private = true if meant")
        return public

    async def close(self) -> None:
        await self._resolver.close()
