"""The gateway under test of `benchmarks.service_soak`, with its files, a Redis, a plug-in that raises, and a model with
a NaN embedding."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import aiohttp
import torch
from transformers import AutoTokenizer, GraniteConfig, GraniteForCausalLM

from benchmarks.random_model import BUNDLED, small_config
from benchmarks.soak_hostile import HOSTILE, HOSTILE_KEY, PHRASE, UPSTREAM

KEY = "soak-key"
REDIS = shutil.which("redis-server")
TRIP = "tripwire"
"""What the plug-in throws at."""
POISON = "\u00a7"
"""Its second byte is the token whose embedding is not a number in the model `frail`."""
FRAIL = "frail"

PLUGIN = f'''
from sluicegate.plugins import ScreenResult


class Tripwire:
    """Breaks on one word, as a plug-in with a bug does."""

    async def screen(self, request, caller):
        if any("{TRIP}" in message.content for message in request.messages):
            raise RuntimeError("the plug-in's own bug")
        return ScreenResult()


def register(registry):
    registry.add("screen", "{TRIP}", lambda settings: Tripwire(**settings))
'''


class Gateway:
    """A `sluicegate serve` that can be killed and started again on the same port, books and files."""

    def __init__(self, folder: Path, upstream_port: int | None = None) -> None:
        """Write what the gateway needs into `folder`. `upstream_port` is that of the hostile server behind a model,
        where there is one."""
        self.folder = folder
        self.upstream_port = upstream_port
        self.port, self.redis_port = free_port(), free_port()
        self.path = folder / "accounts.db"
        self.process: subprocess.Popen[bytes] | None = None
        self.redis: subprocess.Popen[bytes] | None = None
        self.up = False
        self.starts = 0
        install_plugin(folder / "plugins")
        save_frail_model(folder / FRAIL)
        (folder / "batches").mkdir()
        (folder / "gateway.toml").write_text(self._configuration(), "utf-8")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _configuration(self) -> str:
        recall = f'recall = ["redis"]\n[stages.recall.redis]\nurl = "redis://127.0.0.1:{self.redis_port}/0"\n'
        configured = textwrap.dedent(f"""
            [server]
            port = {self.port}
            log_level = "critical"
            stall_s = 5
            [accounts]
            path = "{self.path}"
            flush_s = 0.5
            [batches]
            path = "{self.folder / "batches"}"
            concurrency = 2
            [[keys]]
            id = "soak"
            key = "{KEY}"
            limits = {{ concurrency = 64 }}
            [stages.generate.engine]
            models = [{{ path = "bundled" }}, {{ path = "{self.folder / FRAIL}", name = "{FRAIL}" }}]
            """)
        pipeline = f'[pipeline]\nscreen = ["secrets", "{TRIP}"]\n'
        return configured + self._hostile() + pipeline + self._moderated() + (recall if REDIS else "")

    def _hostile(self) -> str:
        if self.upstream_port is None:
            return ""
        return textwrap.dedent(f"""
            [[keys]]
            id = "{HOSTILE}"
            key = "{HOSTILE_KEY}"
            limits = {{ concurrency = 8 }}
            [stages.moderate.blocklist]
            phrases = ["{PHRASE}"]
            [stages.generate.upstream.models.{UPSTREAM}]
            url = "http://127.0.0.1:{self.upstream_port}/v1"
            allow_private = true
            """)

    def _moderated(self) -> str:
        return "" if self.upstream_port is None else 'moderate = ["blocklist"]\ngenerate = ["engine", "upstream"]\n'

    async def start(self, session: aiohttp.ClientSession) -> None:
        command = [
            sys.executable,
            "-m",
            "sluicegate.gateway.commands.cli",
            "serve",
            "--config",
            str(self.folder / "gateway.toml"),
        ]
        here = os.pathsep.join([str(self.folder / "plugins"), str(Path(__file__).parents[1])])
        environ = {**os.environ, "PYTHONPATH": here}
        self.process = await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.DEVNULL, env=environ)
        self.starts += 1
        while not self.up:
            await asyncio.sleep(0.1)
            if (status := self.process.poll()) is not None:
                raise SystemExit(f"the gateway ended with {status} before it was ready; what it said is above")
            try:
                async with session.get(f"{self.url}/readyz") as answer:
                    self.up = answer.status == 200
            except aiohttp.ClientError:
                continue

    def end(self, number: int) -> int:
        """Send the gateway the signal `number`, and return its exit status."""
        self.up = False
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def start_redis(self) -> None:
        if REDIS is not None:
            command = [REDIS, "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            self.redis = subprocess.Popen([*command, "--dir", str(self.folder)], stdout=subprocess.DEVNULL)

    def kill_redis(self) -> None:
        if self.redis is not None:
            self.redis.send_signal(signal.SIGKILL)
            self.redis.wait(10)
            self.redis = None

    def rss_mb(self) -> float:
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def install_plugin(folder: Path) -> None:
    """Write what pip would leave there: a module, and the metadata that names its entry point."""
    info = folder / "soak_tripwire-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "soak_tripwire.py").write_text(PLUGIN, "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: soak-tripwire\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[sluicegate.plugins]\ntripwire = soak_tripwire:register\n", "utf-8")


def save_frail_model(folder: Path) -> None:
    """Save random weights that give no number for one token. Whoever reads it gets no answer, and nobody else in the
    same step may notice.

    A checkpoint that holds NaN is refused when it is loaded. So every weight is finite, and the token's embedding
    overflows only when Granite multiplies it."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    token = tokenizer(POISON, add_special_tokens=False)["input_ids"][-1]
    config = small_config(GraniteConfig, tokenizer, 2048, embedding_multiplier=2.0, tie_word_embeddings=False)
    torch.manual_seed(7)
    model = GraniteForCausalLM(config)
    with torch.no_grad():
        model.get_input_embeddings().weight[token] = 3e38
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
