"""A search service on a real socket that answers what a test wants: well, late, wrongly, or for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, Any], None]


class SearchService:
    """`asked`: the bodies that came, `keys` their authorization."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Any] = []
        self.keys: list[str | None] = []
        self.url = ""


@contextmanager
def serving(answer: Answer) -> Iterator[SearchService]:
    service = SearchService(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.asked.append(body)
            service.keys.append(self.headers.get("authorization"))
            try:
                service.answer(self, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}/search"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: BaseHTTPRequestHandler, _: Any) -> None:
        handler.send_response(status)
        handler.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def finds(*documents: Any) -> Answer:
    """Find these documents: texts, or (text, source), or (text, source, score)."""
    rows = [(one,) if isinstance(one, str) else one for one in documents]
    named = [dict(zip(("text", "source", "score"), row, strict=False)) for row in rows]
    return says({"documents": named})
