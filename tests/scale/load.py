"""What callers and batches ask while something breaks, and what they saw."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from tests.scale.gateway_process import WORDS
from tests.waiting import LIMIT_S, until

CALLERS = 6
LINES = 32
BODY = {"model": "scripted", "max_tokens": 20, "messages": [{"role": "user", "content": "Speak."}]}
STILL_S = 3.0
"""Books that did not change for so long have all: gateways write theirs five times a second."""


@dataclass
class Tally:
    """What callers saw of one fault. `refused`: answered by a status and nothing begun; `cut`: begun and not ended, or
    ended by an error event; `lost`: questions without an answer in the end, lines of the batch among them."""

    fault: str
    whole: int = 0
    refused: int = 0
    cut: int = 0
    lost: int = 0
    charged: int = 0
    lines: int = 0
    """Of the batch, that were answered."""
    lines_charged: int = 0
    may_be_asked_again: int = 0
    """Lines that were under way at a gateway that died, or was not heard of for longer than its lease."""
    lasted_s: float = 0.0
    recovery_s: float = 0.0
    """From the beginning of the fault to the end of the last try that came to nothing."""
    longest_s: float = 0.0
    """From the first to the last try of one question."""
    began: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def twice(self) -> int:
        """Count the requests and lines charged that nobody sent."""
        lines = max(0, self.lines_charged - self.lines - self.may_be_asked_again)
        return max(0, self.charged - self.whole - self.cut) + lines

    def count(self, name: str) -> None:
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)
            if name in ("cut", "refused") and self.began:
                self.recovery_s = time.monotonic() - self.began


def ask(base_url: str, key: str = "caller", model: str = "scripted") -> str:
    """Ask once: `whole`, `cut` or `refused`."""
    words, ended, body = 0, False, {**BODY, "model": model, "stream": True}
    head = {"authorization": f"Bearer {key}"}
    try:
        with httpx.stream("POST", f"{base_url}/v1/chat/completions", json=body, headers=head, timeout=60) as answer:
            if answer.status_code != 200:
                return "refused"
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line[6:]).get("choices", ()):
                    words += (choice["delta"].get("content") or "").count("word")
                    ended = ended or choice["finish_reason"] == "stop"
    except httpx.ConnectError:
        return "refused"
    except httpx.HTTPError:
        return "cut"
    assert not ended or words == WORDS, "an answer that ends well is whole"
    return "whole" if ended else "cut"


def keep_asking(base_url: str, model: str, tally: Tally, over: threading.Event) -> None:
    """Ask until it is over, each question until it is answered, as clients do."""
    while not over.is_set():
        began, outcome = time.monotonic(), ""
        while outcome != "whole" and time.monotonic() - began < LIMIT_S:
            outcome = ask(base_url, model=model)
            tally.count(outcome)
            tally.longest_s = max(tally.longest_s, time.monotonic() - began)
            if outcome == "refused":
                time.sleep(0.1)
        if outcome != "whole":
            tally.count("lost")


@contextmanager
def callers(base_url: str, tally: Tally, model: str = "scripted") -> Iterator[None]:
    """Ask from `CALLERS` threads; begins when each was answered, ends when each has its answer."""
    over = threading.Event()
    threads = [threading.Thread(target=keep_asking, args=(base_url, model, tally, over)) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: tally.whole >= CALLERS)
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


class BatchLoad:
    """One batch, begun through the balancer and looked at through it until it has ended."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        rows = [
            {"custom_id": f"{at}", "method": "POST", "url": "/v1/chat/completions", "body": BODY} for at in range(LINES)
        ]
        data = "\n".join(json.dumps(row) for row in rows)
        file = self._call("POST", "/files", data={"purpose": "batch"}, files={"file": ("lines", data)}).json()
        asked = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        self._id = self._call("POST", "/batches", json=asked).json()["id"]

    def ended(self) -> int:
        """Wait for its end; how many lines have an answer, each one."""
        found: dict[str, str] = {}

        def is_over() -> bool:
            found.update(self._call("GET", f"/batches/{self._id}").json())
            return found["status"] not in ("validating", "in_progress", "finalizing")

        until(is_over)
        assert found["status"] == "completed", found
        text = self._call("GET", f"/files/{found['output_file_id']}/content").text
        answered = [json.loads(line)["custom_id"] for line in text.splitlines()]
        assert len(answered) == len(set(answered)), "a line has one answer"
        return len(answered)

    def _call(self, method: str, path: str, **body: object) -> httpx.Response:
        """Ask until the deployment does it."""
        answer: list[httpx.Response] = []

        def is_done() -> bool:
            try:
                head = {"authorization": "Bearer batcher"}
                found = httpx.request(method, f"{self._base_url}/v1{path}", headers=head, timeout=60, **body)  # type: ignore[arg-type]
            except httpx.HTTPError:
                return False
            answer[:] = [found]
            assert found.status_code in (200, 429, 502, 503, 504), found.text
            return found.status_code == 200

        until(is_done)
        return answer[0]


Books = dict[str, tuple[int, float]]
"""Requests and cost of each key."""


def books_of(urls: Sequence[str]) -> Books | None:
    """Return what the first gateway says that says it."""
    for url in urls:
        try:
            head = {"authorization": "Bearer operator"}
            answer = httpx.get(f"{url}/admin/usage", params={"by": "key_id"}, headers=head)
        except httpx.HTTPError:
            continue
        if answer.status_code == 200:
            return {row["key_id"]: (row["requests"], row["cost"]) for row in answer.json()["data"]}
    return None


def settled(read: Callable[[], Books | None]) -> Books:
    """Return what is in the books once it no longer changes: every gateway has written down what it had."""
    last: Books | None = None
    since = time.monotonic()

    def is_still() -> bool:
        nonlocal last, since
        if (now := read()) != last:
            last, since = now, time.monotonic()
        return last is not None and time.monotonic() - since > STILL_S

    until(is_still)
    assert last is not None
    return last


def table(found: list[Tally]) -> str:
    """Write the table as it stands in `docs/scale.md`."""
    lines = [
        "| fault | it lasted | answers | cut | refused | lost | charged | charged twice | lines of a batch, asked again"
        " | last question that came to nothing | longest question |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.fault} | {one.lasted_s:.1f} s | {one.whole} | {one.cut} | {one.refused} | {one.lost} | {one.charged} "
        f"| {one.twice} | {f'{one.lines}, {max(0, one.lines_charged - one.lines)}' if one.lines else 'none'} "
        f"| {f'after {one.recovery_s:.1f} s' if one.recovery_s else 'none'} | {one.longest_s:.1f} s |"
        for one in found
    ]
    return "\n".join(lines)


@contextmanager
def printed(request: pytest.FixtureRequest) -> Iterator[list[Tally]]:
    """Yield a list to be filled by tests; the table of it is printed at the end."""
    found: list[Tally] = []
    yield found
    printer = request.config.pluginmanager.getplugin("terminalreporter")
    if printer is not None:
        printer.write_line("\n" + table(found))
