"""An address before a Redis, which troubles its connections."""

from __future__ import annotations

import asyncio
import threading


class RedisProxy:
    """Between a gateway and Redis: replies come late, or the connection is cut after the server did its work.

    `server_port`: where new connections are led. Old ones stay where they are, as behind a name whose entry an operator
    or a cloud changes.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.delay_s = 0.0
        self.cut_replies = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> RedisProxy:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        made = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = made.result(10)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_server = await asyncio.open_connection("127.0.0.1", self.server_port)
        asked = asyncio.create_task(_copy(reader, to_server))
        try:
            while data := await there.read(1 << 16):
                await asyncio.sleep(self.delay_s)
                if self.cut_replies > 0 and data.startswith((b"*6", b":")):  # answers of scripts
                    self.cut_replies -= 1
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            asked.cancel()
            for one in (writer, to_server):
                one.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
