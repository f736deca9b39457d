"""A real gateway whose semantic cache asks a judge, for `benchmarks.sameness --judge`.

The answers come from a server of this process that gives each question the number of its meaning, so that a wrong hit
is one with another number; judge and embedder are what the gateway's settings name, called as the gateway calls them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.soak_gateway import free_port

ANSWERS, JUDGE = "answers", "judge"
COUNTS = ("asked", "said_yes", "protected", "remembered", "errors", "timeouts", "skipped", "opened")


class Answers:
    """Answers each question with the number of its meaning."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = known
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Answers:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        text = str(self._known[asked["messages"][-1]["content"]])
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for choice in (
            {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ):
            await answer.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
        usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
        await answer.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        await answer.write_eof()
        return answer


def settings(port: int, answers: int, judge: str, embedder: str, bound: float) -> str:
    """Return the gateway's settings. `judge`: a checkpoint's folder or file, `bundled`, `URL#MODEL`, or nothing."""
    elsewhere = "#" in judge
    served = bool(judge) and not elsewhere
    semantic = {
        "models": [ANSWERS],
        "judge": judge if elsewhere else f"served:{JUDGE}" if served else "",
        "judge_budget_ms": 60_000,
        "embedder": embedder,
        "error_bound": bound,
    }
    lines = [f"[server]\nport = {port}\nlog_level = 'warning'"]
    lines.append(f'[pipeline]\nrecall = ["memory"]\ngenerate = {json.dumps(["engine"] * served + ["upstream"])}')
    lines.append("[stages.recall.memory.semantic]")
    lines += [f"{name} = {json.dumps(value)}" for name, value in semantic.items() if value]
    if served:
        lines.append(f"[stages.generate.engine]\nmodels = [{{ path = {json.dumps(judge)}, name = '{JUDGE}' }}]")
    lines.append(f"[stages.generate.upstream.models.{ANSWERS}]\nurl = 'http://127.0.0.1:{answers}/v1'")
    return "\n".join([*lines, "allow_private = true", ""])


async def measured(
    known: Mapping[str, int], asked: Sequence[str], judge: str, *, embedder: str = "", bound: float = 0.0
) -> dict[str, Any]:
    """Ask a gateway one question after the other, and count hits by meaning, wrong ones and what its judge did."""
    with tempfile.TemporaryDirectory() as folder:
        async with Answers(known) as answers, aiohttp.ClientSession() as session:
            port = free_port()
            path = Path(folder) / "gateway.toml"
            path.write_text(settings(port, answers.port, judge, embedder, bound), "utf-8")
            process = await asyncio.to_thread(_started, path)
            try:
                url = f"http://127.0.0.1:{port}"
                await _ready(session, url, process)
                return await _asked(session, url, known, asked)
            finally:
                process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(process.wait, 60)


def _started(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--config", str(path)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ))


async def _ready(session: aiohttp.ClientSession, url: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        await asyncio.sleep(0.2)
        if (status := process.poll()) is not None:
            raise SystemExit(f"the gateway ended with {status} before it was ready; what it said is above")
        try:
            async with session.get(f"{url}/readyz") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            continue


async def _asked(
    session: aiohttp.ClientSession, url: str, known: Mapping[str, int], asked: Iterable[str]
) -> dict[str, Any]:
    served = wrong = requests = 0
    judged_s: list[float] = []
    others_s: list[float] = []
    before = 0.0
    for text in asked:
        body = {"model": ANSWERS, "temperature": 0, "messages": [{"role": "user", "content": text}]}
        start = time.perf_counter()
        async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
            said: Any = await answer.json()
            took_s, found = time.perf_counter() - start, answer.headers.get("x-sluicegate-cache", "")
            if answer.status != 200:
                raise SystemExit(f"the gateway answered {answer.status}: {said}")
        requests += 1
        served += found.startswith("semantic")
        wrong += said["choices"][0]["message"]["content"] != str(known[text])
        counts = await _counts(session, url)
        verdicts, before = counts["asked"] - before, counts["asked"]
        if verdicts:
            judged_s.append(took_s / verdicts)
        else:
            others_s.append(took_s)
    return {
        "requests": requests,
        "hits_by_meaning": served,
        "wrong": wrong,
        "wrong_share_of_requests": round(wrong / max(1, requests), 4),
        **{f"judge_{name}": int(counts[name]) for name in COUNTS},
        "ms_a_verdict": {"p50": _ms(judged_s, 0.5), "p95": _ms(judged_s, 0.95)},
        "ms_without_a_verdict": {"p50": _ms(others_s, 0.5)},
    }


def _ms(times: list[float], share: float) -> float | None:
    return round(1e3 * sorted(times)[int(share * (len(times) - 1))], 1) if times else None


async def _counts(session: aiohttp.ClientSession, url: str) -> dict[str, float]:
    async with session.get(f"{url}/metrics") as answer:
        lines = [line for line in (await answer.text()).splitlines() if "semantic_judge_" in line and line[0] != "#"]
    found = dict.fromkeys(COUNTS, 0.0)
    for line in lines:
        name, _, value = line.rpartition(" ")
        short = name.partition("semantic_judge_")[2].partition("_total")[0]
        if short in found:
            found[short] = float(value)
    return found
