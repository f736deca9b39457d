"""A client of one Redis, a Sentinel set or a Cluster, by URL. `redis` is imported here only, and only when asked for.

redis://[user[:password]@]host[:port][/db]               rediss:// for TLS, unix:// for a socket
redis+sentinel://[user[:password]@]host:port,.../service[/db]
redis+cluster://[user[:password]@]host:port,...          rediss+sentinel, rediss+cluster for TLS
"""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from sluicegate.plugins.addresses import check_redis_address
from sluicegate.plugins.errors import ConfigurationError

DEFAULT_PORT = 6379
SHARED_CONNECTIONS = 16
"""Most connections of a client on an event loop; further calls wait. Otherwise a burst on a new client would open one
connection per call, with a handshake for each; 16 connections carry more calls a second than one process makes."""
MAX_CONNECTIONS = 100
"""Most connections of other clients, and to each node of a Cluster: more than there are ever calls under way."""

A_NODE = "it is a node of a Cluster; write the url as redis+cluster://HOST:PORT"
_REASONS = (
    ("invalid username-password", "it refuses the user or the password of the url; correct them"),
    ("Authentication required", "it asks for a password; put it into the url, redis://:PASSWORD@HOST"),
    ("no permissions", "its user may not use the commands that are needed; widen the user's ACL"),
    ("read only replica", "it is a replica and takes no writes; name the main server, or Sentinel"),
    ("NOREPLICAS", "it has fewer replicas than its min-replicas-to-write; bring them back"),
    ("link with master is down", "it is a replica whose main server is away; bring that back"),
    ("loading the dataset", "it still reads its data; it answers by itself"),
    ("used memory", "its memory is full; raise its maxmemory"),
    ("MISCONF", "it cannot save to its disk and takes no writes; make room"),
    ("MovedError", A_NODE),
    ("hash to the same slot", A_NODE),
    ("Protocol Error", "what answers there is no Redis; correct the host and port of the url"),
    ("MasterNotFound", "no Sentinel names a main server; start them, or a server that they can choose"),
    ("name or service not known", "its host has no address; correct the url"),
    ("connection refused", "nothing listens there; start it, or correct the url"),
)
"""(part of an error, its meaning and remedy), the first that fits. The library takes the first word off the errors for
which it has a class, as OOM and LOADING. None holds an address or a secret."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files; only used by the `rediss` schemes. The server's certificate is always verified."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    check_hostname: bool = True

    def options(self) -> dict[str, Any]:
        return {
            "ssl_ca_certs": self.ca_file,
            "ssl_certfile": self.cert_file,
            "ssl_keyfile": self.key_file,
            "ssl_check_hostname": self.check_hostname,
            "ssl_cert_reqs": "required",
        }


async def evaluate(client: Any, parts: tuple[Any, ...], patience_s: float) -> Any:
    """Run a script, and once more where the connection was closed, as by a server that was restarted, or where the
    server has become a replica: the address may lead to another by now. `parts` are those of EVAL. Raises what the
    library raises, and `TimeoutError` after `patience_s` seconds, also where those who ask before have all
    connections."""
    errors = importlib.import_module("redis.exceptions")
    async with asyncio.timeout(patience_s):
        try:
            return await client.eval(*parts)
        except (errors.ConnectionError, errors.ReadOnlyError):
            return await client.eval(*parts)


def why_of(error: BaseException) -> str:
    """Return what an error of Redis means and what to do, with the kind of error; to be shown to anybody."""
    kind = type(error).__name__
    text = f"{kind} {error}".lower()
    said = next((reason for part, reason in _REASONS if part.lower() in text), None)
    if said is None and "Timeout" in kind:
        said = "it does not answer in time; look at its load, and at the way there"
    return f"{said or 'it cannot be used'} ({kind})"


def connect(url: str, tls: Tls, *, patience_s: float = 1.0, retries: int = 1) -> Any:
    """Make an asyncio client; nothing is connected yet. `patience_s` bounds a connect and a reply, and is what ends a
    call that its caller no longer waits for. `retries`: how often a call is sent again that got no answer, though it
    may have been carried out; 0 for what must not happen twice. Raises `ConfigurationError`."""
    scheme, _, rest = url.partition("://")
    library = _library()
    options = _options("redis.asyncio", patience_s, retries) | (tls.options() if scheme.startswith("rediss") else {})
    try:
        check_redis_address("url", url)
        if scheme.endswith("+sentinel"):
            shared = options | {"max_connections": SHARED_CONNECTIONS}
            shared |= {"ssl": True} if scheme.startswith("rediss") else {}
            return _sentinel(library, rest, shared, connection_pool_class=_pools().SharedSentinelPool)
        if scheme.endswith("+cluster"):
            return _cluster(library, rest, options | ({"ssl": True} if scheme.startswith("rediss") else {}))
        pool = _pools().SharedPool.from_url(url, **options | {"max_connections": SHARED_CONNECTIONS})
        _pools().leave_replicas(pool)
        return library.Redis.from_pool(pool)
    except ValueError as error:
        raise ConfigurationError(f"Redis cannot be asked: {error}") from error


def connect_blocking(url: str, *, patience_s: float = 1.0, retries: int = 1) -> Any:
    """Make a client as `connect`, for calls on threads. A Cluster is asked for its nodes at once. Raises `ValueError`
    for another URL."""
    library = importlib.import_module("redis")
    options = _options("redis", patience_s, retries)
    scheme, _, rest = url.partition("://")
    make = {"sentinel": _sentinel, "cluster": _cluster}.get(scheme.partition("+")[2])
    if make is None:
        client = library.from_url(url, **options)
        _pools().leave_replicas(client.connection_pool)
        return client
    pool = {"connection_pool_class": _pools().BlockingSentinelPool} if make is _sentinel else {}
    return make(library, rest, options | ({"ssl": True} if scheme.startswith("rediss") else {}), **pool)


def _library() -> Any:
    return importlib.import_module("redis.asyncio")


def _pools() -> Any:
    return importlib.import_module("sluicegate.cache.stores.redis_pool")


def _options(library: str, patience_s: float, retries: int) -> dict[str, Any]:
    """Return the client's options. Retries have no delay: they serve pooled connections that the server has closed."""
    backoff = importlib.import_module("redis.backoff")
    retry = importlib.import_module(f"{library}.retry")
    return {
        "socket_timeout": patience_s,
        "socket_connect_timeout": patience_s,
        "retry": retry.Retry(backoff.NoBackoff(), retries),
        "protocol": 2,
        "max_connections": MAX_CONNECTIONS,
    }


def _sentinel(library: Any, rest: str, options: dict[str, Any], **pool: Any) -> Any:
    login, hosts, path = _parts(rest)
    service, _, db = path.partition("/")
    if not service:
        raise ValueError("the name of the service is missing; write redis+sentinel://host:port/service")
    sentinels = importlib.import_module(f"{library.__name__}.sentinel").Sentinel(
        hosts, sentinel_kwargs=options, **options, **login
    )
    return sentinels.master_for(service, db=int(db or 0), **pool)


def _cluster(library: Any, rest: str, options: dict[str, Any]) -> Any:
    login, hosts, _ = _parts(rest)
    node = importlib.import_module(f"{library.__name__}.cluster").ClusterNode
    return library.RedisCluster(startup_nodes=[node(host, port) for host, port in hosts], **options, **login)


def _parts(rest: str) -> tuple[dict[str, str], list[tuple[str, int]], str]:
    """Split what comes after `://` into (user and password, hosts, path)."""
    authority, _, path = rest.partition("/")
    credentials, _, places = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    login = {"username": unquote(user)} if user else {}
    if password:
        login["password"] = unquote(password)
    return login, [_place(place) for place in places.split(",")], path.partition("?")[0]


def _place(place: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    return (host, int(port)) if colon and not port.endswith("]") else (place, DEFAULT_PORT)
