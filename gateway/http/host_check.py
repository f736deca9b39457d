"""Plain ASGI middleware against other sites' pages: without keys, serve only requests that are addressed to one of the
gateway's own names and come from no foreign page.

A page in somebody's browser can reach loopback under a name of its own (DNS rebinding), and can post a form to it; the
browser then sends `Host` and `Origin` that show it. With keys such a page gets nowhere, since it holds none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.http.authority import TARGET, Authority, Origin, authority_of, origin_of
from sluicegate.gateway.http.errors import ErrorForms
from sluicegate.gateway.settings import ServerSettings
from sluicegate.plugins import ConfigurationError, PermissionDenied, RequestError, UnsupportedMediaType

log = logging.getLogger("sluicegate.http")
PROBES = frozenset(("/healthz", "/readyz", "/health", "/ping"))
"""Paths that orchestrators request under any address they know; the answer reveals nothing but a state."""
FORMS = frozenset(("/v1/files",))
"""Paths that take forms; the route checks the type."""
WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
KNOWN = 512
"""Most verdicts cached."""
ONCE = frozenset((b"host", b"authorization", b"x-api-key"))
"""Headers that must occur once: of several, a proxy in front might use another one than we do."""
_READ = (b"host", b"origin", b"content-type", b"sec-fetch-site", b"sec-fetch-mode")
Headers = dict[bytes, list[bytes]]


@dataclass(frozen=True, slots=True)
class OwnNames:
    """The gateway's names besides loopback: (name, port; None = any) of hosts, and (scheme, name, port) of pages."""

    hosts: frozenset[tuple[str, int | None]]
    origins: frozenset[tuple[str, str, int | None]]

    @classmethod
    def of(cls, settings: ServerSettings) -> OwnNames:
        """Read the gateway's own names. Raises `ConfigurationError` for invalid ones."""
        return cls(_hosts(settings), _origins(settings.allowed_origins))


class HostCheck:
    def __init__(self, app: ASGIApp, own: OwnNames, keyed: Callable[[], bool], forms: ErrorForms) -> None:
        """Wrap `app`. `keyed`: whether nobody is served without a key."""
        self._app = app
        self._keyed = keyed
        self._forms = forms
        self._hosts, self._origins = own.hosts, own.origins
        self._known: dict[tuple[bytes, ...], RequestError | None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (error := self._complaint(scope)) is not None:
            await self._forms.refuse(error, scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _complaint(self, scope: Scope) -> RequestError | None:
        keyed = self._keyed()
        if keyed:
            named = [name for name, _ in scope["headers"] if name in ONCE]
            if len(named) > len(set(named)):
                return _several(next(name for name in named if named.count(name) > 1).decode().title())
            if scope["type"] == "http":
                return None
        found: Headers = {name: [] for name in _READ}
        for name, value in scope["headers"]:
            if name in found:
                found[name].append(value)
        return self._misaddressed(scope, found, keyed) or (None if keyed else _misposted(scope, found))

    def _misaddressed(self, scope: Scope, found: Headers, keyed: bool) -> RequestError | None:
        for name in (b"host", b"origin"):
            if len(found[name]) > 1:
                return _several(name.decode().capitalize())
        if scope["path"] in PROBES and scope["type"] == "http":
            return None
        if not found[b"host"]:
            return RequestError("the request names no `Host`; say which gateway is meant", code="invalid_host")
        target = (scope.get("extensions") or {}).get(TARGET, b"")
        key = (b"keyed" if keyed else b"", found[b"host"][0], target, *found[b"origin"])
        if key not in self._known:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = self._judged(*key)
        return self._known[key]

    def _judged(self, keyed: bytes, host: bytes, target: bytes, origin: bytes | None = None) -> RequestError | None:
        try:
            authority = _authority(host)
            if not keyed:
                self._check_host(authority)
                self._check_target(target)
            if origin is not None:
                self._check_origin(origin.decode("latin-1"), authority, own=bool(keyed))
        except RequestError as error:
            log.info("refused: %s", error.message)
            return error
        return None

    def _check_host(self, host: Authority) -> None:
        if not self._own(host):
            raise PermissionDenied(
                f"this gateway has no keys and answers only to its own names, not to {host.host!r}; if that is one of "
                "them, [server] allowed_hosts names it",
                code="foreign_host",
            )

    def _check_target(self, target: bytes) -> None:
        """Check a target with a name of its own, which goes before `Host`."""
        if target and target != b"*":
            scheme, _, rest = target.partition(b"://")
            if scheme.lower() not in (b"http", b"https"):
                raise RequestError("the target of the request is neither a path nor a URL", code="invalid_host")
            self._check_host(_authority(rest.partition(b"/")[0].partition(b"?")[0]))

    def _check_origin(self, text: str, host: Authority, *, own: bool) -> None:
        """Check that pages of this origin may use the gateway. `own`: `host` is this gateway's, whatever it is. Raises
        `RequestError` or `PermissionDenied`."""
        try:
            origin = origin_of(text)
        except ValueError as error:
            raise RequestError(f"the header `Origin` {error}: {text[:100]!r}", code="invalid_origin") from error
        if origin is None or not (self._named(origin) or self._same(origin, host, own)):
            raise PermissionDenied(
                f"pages of {text[:100]!r} may not use this gateway; if they may, [server] allowed_origins names it",
                code="foreign_origin",
            )

    def _named(self, origin: Origin) -> bool:
        return (origin.scheme, origin.authority.host, origin.port) in self._origins

    def _same(self, origin: Origin, host: Authority, own: bool) -> bool:
        """Return whether this gateway served the page: under the same name or another of its own, at the same port."""
        if origin.scheme not in ("http", "https") or not origin.same_port(host):
            return False
        return origin.authority.host == host.host or (not own and self._own(origin.authority))

    def _own(self, name: Authority) -> bool:
        return name.is_loopback or (name.host, None) in self._hosts or (name.host, name.port) in self._hosts


def _hosts(settings: ServerSettings) -> frozenset[tuple[str, int | None]]:
    """Return where the gateway listens, and the names of the configuration."""
    found = set()
    for text in settings.allowed_hosts:
        try:
            name = authority_of(text)
        except ValueError as error:
            raise ConfigurationError(f"[server] allowed_hosts: {text!r} {error}; give NAME or NAME:PORT") from error
        found.add((name.host, name.port))
    bound = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        host = authority_of(bound).host
    except ValueError:
        return frozenset(found)
    return frozenset(found if host in ("0.0.0.0", "::") else {*found, (host, None)})


def _origins(texts: Iterable[str]) -> frozenset[tuple[str, str, int | None]]:
    found = set()
    for text in texts:
        try:
            origin = origin_of(text)
        except ValueError as error:
            raise ConfigurationError(f"[server] allowed_origins: {text!r} {error}; give https://NAME") from error
        if origin is None:
            raise ConfigurationError("[server] allowed_origins: `null` is any page that hides where it comes from")
        found.add((origin.scheme, origin.authority.host, origin.port))
    return frozenset(found)


def _authority(raw: bytes) -> Authority:
    text = raw.decode("latin-1")
    try:
        return authority_of(text)
    except ValueError as error:
        raise RequestError(f"the header `Host` {error}: {text[:100]!r}", code="invalid_host") from error


def _several(name: str) -> RequestError:
    code = f"invalid_{name.lower().replace('-', '_')}"
    return RequestError(f"the header `{name}` comes more than once; send it once", code=code)


def _misposted(scope: Scope, found: Headers) -> RequestError | None:
    """Return the error for a request that any page may send without a preflight (a form, plain text, a navigation);
    else None."""
    if scope["type"] != "http" or scope["path"] in PROBES:
        return None
    site, mode = found[b"sec-fetch-site"], found[b"sec-fetch-mode"]
    if b"cross-site" in site and (scope["method"] in WRITING or b"navigate" not in mode) and not found[b"origin"]:
        return PermissionDenied("another site's page may not use this gateway", code="foreign_origin")
    if scope["method"] not in WRITING or scope["path"] in FORMS:
        return None
    kinds = [kind.partition(b";")[0].strip().lower() for kind in found[b"content-type"]]
    if not kinds:
        asked = bool(found[b"origin"] or site) and _has_body(scope)
    else:
        asked = len(kinds) > 1 or not (kinds[0] == b"application/json" or kinds[0].endswith(b"+json"))
    if not asked:
        return None
    shown = b", ".join(kinds).decode("latin-1")[:100] or "none"
    return UnsupportedMediaType(f"send `content-type: application/json`, found {shown!r}")


def _has_body(scope: Scope) -> bool:
    sent = dict(scope["headers"])
    return b"transfer-encoding" in sent or sent.get(b"content-length", b"0") != b"0"
