"""Slot `generate`, stage `upstream`: models of any server that speaks OpenAI's `/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.file_watcher import FileWatcher
from sluicegate.gateway.readiness.expiry import expiring
from sluicegate.gateway.upstream.generation import UpstreamCall, UpstreamGeneration
from sluicegate.gateway.upstream.model import upstream_model
from sluicegate.gateway.upstream.reading.tool_calls import OfferedTools
from sluicegate.gateway.upstream.request_body import body_of
from sluicegate.gateway.upstream.settings import STAGE, UpstreamModelSettings, UpstreamSettings
from sluicegate.gateway.upstream.transport.client import Client
from sluicegate.gateway.upstream.transport.server import PROBES_TO_LEAVE
from sluicegate.plugins import Job, Load, NotFound, RequestError, ServedModel, ServerHealth, Trouble, read_settings

KEYS_EVERY_S = 10.0
"""How often files with keys are looked at."""
RENEWED = "it is renewed at that server; a new one is noticed at the next connection"


class Upstream:
    """A `Generator`, and a `ModelHost`: servers can be added and removed while requests run."""

    def __init__(self, settings: UpstreamSettings, *, shows_messages: bool = False) -> None:
        """Make the models and their clients. `shows_messages`: log what servers say when they refuse. Raises
        `ConfigurationError` where the key of one is not where its settings say."""
        self._shows_messages = shows_messages
        self._validator = Validator()
        self._settings = dict(settings.models)
        for model in settings.models.values():
            model.api_key()
        self._models: dict[str, ServedModel] = {name: upstream_model(name, s) for name, s in self._settings.items()}
        self._clients = {name: self._client(name, s) for name, s in self._settings.items()}
        self._renewal = FileWatcher(KEYS_EVERY_S)
        self._renewal.watch("keys of other servers", self._key_files, self._renew_keys)

    @property
    def models(self) -> Mapping[str, ServedModel]:
        return self._models

    async def start(self) -> None:
        for client in self._clients.values():
            await client.start()
        self._renewal.start()

    async def close(self) -> None:
        await self._renewal.close()
        for client in self._clients.values():
            await client.close()

    async def generate(self, job: Job) -> UpstreamGeneration:
        """Prepare a generation. Nothing is sent before its `begin`, so that its holder knows what was spent."""
        settings = self._settings.get(job.model)
        if settings is None:
            raise NotFound(f"there is no model {job.model!r} here; served: {', '.join(sorted(self._models))}")
        if job.request is None:
            raise RequestError("a model of another server answers requests, not prompts", param="model")
        body = body_of(job.request, settings, job.model)
        offered = OfferedTools(job.request, job.tool_grammars, self._validator)
        client = self._clients[job.model]
        return UpstreamGeneration(UpstreamCall(job, client, body, offered, settings.attempts, settings.context_length))

    def stats(self) -> Mapping[str, float]:
        clients = self._clients.values()
        servers = [server for client in clients for server in client.servers]
        ends_s = [moment for client in clients for moment in client.certificates.values()]
        return {
            **({"certificate_ends_seconds": min(ends_s)} if ends_s else {}),
            "requests_running": float(sum(client.running for client in clients)),
            "requests_waiting": 0.0,
            "kv_cache_usage_ratio": 0.0,
            "failures_total": float(sum(client.failures for client in clients)),
            "broken_total": float(sum(client.broken for client in clients)),
            "cut_total": float(sum(client.cut for client in clients)),
            "disbelieved_total": float(sum(client.disbelieved for client in clients)),
            "tries_total": float(sum(client.tries for client in clients)),
            "prefix_choices_total": float(sum(client.by_prefix for client in clients)),
            "servers": float(sum(len(client.servers) for client in clients)),
            "breakers_open": float(sum(server.breaker.wait_s > 0 for server in servers)),
            "breakers_opened_total": float(sum(server.breaker.opened for server in servers)),
            "probes_unanswered": float(sum(server.missed > 0 for server in servers)),
        }

    def troubles(self) -> Sequence[Trouble]:
        """Report servers that failed again and again, do not answer their probes, or show a certificate that ends
        soon."""
        found: list[Trouble] = []
        for name, client in self._clients.items():
            count = len(client.servers)
            if bad := [s.number + 1 for s in client.servers if s.breaker.is_open or s.missed >= PROBES_TO_LEAVE]:
                found.append(Trouble(_trouble(name, bad, count)))
            for number, ends_s in client.certificates.items():
                which = "the server" if count == 1 else f"server {number + 1} of the {count}"
                found += expiring(f"the certificate of {which} of model {name!r}", ends_s, RENEWED)
        return found

    def load(self, model: str | None = None) -> Load:
        """Report requests running there, and the seconds until the breaker allows a trial."""
        client = self._clients.get(model or next(iter(self._clients)))
        if client is None:
            raise NotFound(f"there is no model {model!r} here")
        return Load(client.running, 0, 0, 0, client.wait_s)

    def health(self, model: str) -> Sequence[ServerHealth]:
        client = self._clients.get(model)
        if client is None:
            raise NotFound(f"there is no model {model!r} here")
        return [server.health() for server in client.servers]

    async def add_model(self, settings: Any, *, replace: bool = False) -> ServedModel:
        """Add a model. `settings`: those of one model, and its `name`."""
        table = dict(settings)
        name = str(table.pop("name", ""))
        if not name or (name in self._models and not replace):
            raise RequestError(f"the name {name!r} is taken or empty; send another, or `replace`", param="name")
        made = read_settings(UpstreamModelSettings, table, f"{STAGE}.models.{name}")
        client = self._client(name, made)
        await client.start()
        before = self._clients.get(name)
        self._put(name, made, client)
        if before is not None:
            await before.close()
        return self._models[name]

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        if name not in self._models:
            raise NotFound(f"there is no model {name!r} here")
        del self._models[name], self._settings[name]
        await self._clients.pop(name).close()

    def _key_files(self) -> list[Path]:
        return [Path(found.api_key_file) for found in self._settings.values() if found.api_key_file]

    async def _renew_keys(self) -> None:
        """Read all API keys again. Raises `ConfigurationError` for the first that cannot be read."""
        for client in list(self._clients.values()):
            client.renew_key()

    def _client(self, name: str, settings: UpstreamModelSettings) -> Client:
        return Client(name, settings, shows_messages=self._shows_messages)

    def _put(self, name: str, settings: UpstreamModelSettings, client: Client) -> None:
        self._settings[name], self._clients[name] = settings, client
        self._models[name] = upstream_model(name, settings)


def _trouble(name: str, bad: list[int], count: int) -> str:
    if count == 1:
        return f"the server of model {name!r} failed again and again; it is tried again by itself"
    which = f"server {bad[0]}" if len(bad) == 1 else f"servers {', '.join(map(str, bad))}"
    return f"{which} of the {count} of model {name!r} failed again and again, or are away; they are tried by themselves"
