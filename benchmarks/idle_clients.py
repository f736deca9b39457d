"""Clients that only wait, in a process of their own: `python -m benchmarks.idle_clients PORT COUNT` opens so many
streams and closes them all when its input ends. `benchmarks.clients --idle` runs it."""

from __future__ import annotations

import argparse
import json
import resource
import socket
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    asked = parser.parse_args()
    port, count = asked.port, asked.count
    allow_files(count + 100)
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Tell me a story."}], "stream": True}
    connections = [opened(port, body) for _ in range(count)]
    sys.stdin.read()
    for connection in connections:
        connection.close()


def opened(port: int, body: dict[str, object]) -> socket.socket:
    data = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    return connection


def allow_files(count: int) -> None:
    """Let this process have `count` open files, or as many as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(hard, count), hard))


if __name__ == "__main__":
    main()
