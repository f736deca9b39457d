"""Every error that crosses a package border, drawn as one tree.

    SluicegateError
    ├── ConfigurationError          the operator's settings; raised before anything is served
    ├── PluginError                 a plug-in is missing, broken or answers nonsense
    ├── TokenRejected               a matcher was given a token that its mask refuses
    ├── RequestError                the caller's fault; becomes a 4xx with the OpenAI error body
    │   ├── AuthenticationError     401
    │   ├── PermissionDenied        403
    │   ├── NotFound                404
    │   ├── Conflict                409, what a change was to be made from is not in force any more
    │   ├── RequestTooLarge         413
    │   ├── QuotaExceeded           413, what a tenant keeps here has reached its quota
    │   ├── UnsupportedMediaType    415
    │   ├── RateLimited             429, with `retry_after_s`
    │   ├── ContextLengthExceeded   400
    │   ├── ContentBlocked          400, an input rail refused the request
    │   ├── PendingReview           403, a person must look first; with the review's `id` and `url`
    │   └── GrammarError            400, with the JSON `pointer` of the offending place
    │       ├── InvalidGrammar      not a well-formed schema, pattern or grammar
    │       ├── UnsupportedGrammar  well-formed, but not enforced here; never silently ignored
    │       ├── Unsatisfiable       no value can satisfy it
    │       └── GrammarLimit        well-formed, but past a stated limit of size, depth or time
    │           └── GrammarTooCostly    while it generates: a mask or a token took more CPU time than one may
    └── ServiceError                our fault; becomes a 5xx
        ├── Overloaded              503, with `retry_after_s`
        │   ├── AuditUnavailable    503, a change by an operator cannot be written down, so that it is not made
        │   ├── UpstreamUnavailable 503, another server failed again and again and is left alone for a while
        │   └── BooksUnavailable    503, what is used cannot be written down, or who asks cannot be read
        ├── ModelLoadError          a checkpoint that the engine cannot serve, with the reason
        ├── StorageFailed           507, a disk does not take what has to be kept; with `retry_after_s`
        ├── UpstreamFailed          502, another server that runs a model did not answer as it should
        ├── RetrievalFailed         502, no documents could be found for a request that needs some
        ├── DeadlineExceeded        504, the time that a request was given ran out
        ├── GenerationFailed        500, one request's generation broke
        └── StageFailed             500, a stage threw or ran out of time and failed closed

A message says what was found, where, what was expected and what to do.
"""

from __future__ import annotations

from typing import Self


class SluicegateError(Exception):
    """Root of the tree. `code` is the stable machine name that clients may switch on."""

    code = "internal_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


LONGEST_MESSAGE = 2000
LONGEST_PARAM = 256
"""Most characters of an error's message and of its parameter's name: a name that an error repeats may be as long as a
body."""
_ENDING = 400


def _short(message: str) -> str:
    """Return `message` without its middle where it is too long: what was found stands first, what to do last."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE - _ENDING]} [...] {message[-_ENDING:]}"


class ConfigurationError(SluicegateError):
    code = "invalid_configuration"


class PluginError(SluicegateError):
    code = "plugin_error"


class TokenRejected(SluicegateError):
    """Raised by `accept`; the matcher's state is unchanged."""

    code = "token_rejected"

    def __init__(self, token_id: int, message: str = "") -> None:
        super().__init__(message or f"token {token_id} is not allowed here; sample under the mask of `fill_mask`")
        self.token_id = token_id


class RequestError(SluicegateError):
    """The caller can mend it. `param` names the request's field, `status` is the HTTP status."""

    code = "invalid_request"
    kind = "invalid_request_error"
    status = 400

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(_short(message))
        self.param = param if param is None else param[:LONGEST_PARAM]
        if code is not None:
            self.code = code


class AuthenticationError(RequestError):
    code = "invalid_api_key"
    missing = "missing_api_key"
    """`code` of a request without a key."""
    kind = "authentication_error"
    status = 401


class PermissionDenied(RequestError):
    code = "permission_denied"
    kind = "permission_error"
    status = 403


class NotFound(RequestError):
    code = "not_found"
    kind = "not_found_error"
    status = 404


class Conflict(RequestError):
    code = "conflict"
    status = 409


class RequestTooLarge(RequestError):
    code = "request_too_large"
    status = 413


class QuotaExceeded(RequestError):
    """A tenant's stored data has reached a quota. The message names the quota and what to remove."""

    code = "quota_exceeded"
    status = 413


class UnsupportedMediaType(RequestError):
    code = "unsupported_media_type"
    status = 415


class RateLimited(RequestError):
    code = "rate_limit_exceeded"
    kind = "rate_limit_error"
    status = 429

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ContextLengthExceeded(RequestError):
    code = "context_length_exceeded"


class ContentBlocked(RequestError):
    """`rail` refused what the caller sent; nothing was generated. `reason` is for operators; the caller is told `told`,
    one plain sentence, and never what was found or how sure the rail is of it."""

    code = "content_filter"
    kind = "content_policy_violation"

    def __init__(self, rail: str, reason: str, told: str = "", *, param: str = "messages") -> None:
        said = told or "it holds something that is not allowed here"
        super().__init__(f"the safety check {rail!r} refused the request: {said}", param=param)
        self.rail = rail
        self.reason = reason
        self.request_id: str | None = None
        """Set by the pipeline; a false positive is reported by it."""


class PendingReview(RequestError):
    """A rail wants a person to look at the text `param` before anything is generated; the outcome is to be fetched at
    `url`."""

    code = "pending_review"
    kind = "content_policy_violation"
    status = 403

    def __init__(self, review_id: str, rail: str, url: str, *, param: str = "messages") -> None:
        what = "this request" if param == "messages" else f"the text at {param}"
        super().__init__(
            f"the safety check {rail!r} wants a person to look at {what} first; ask {url} for the outcome", param=param
        )
        self.review = {"id": review_id, "url": url, "status": "pending"}


class GrammarError(RequestError):
    """`pointer` is a JSON pointer into the schema (or a place in a pattern), `reason` one sentence."""

    code = "invalid_schema"

    def __init__(self, reason: str, *, pointer: str = "", param: str | None = None) -> None:
        where = f" (at {pointer!r})" if pointer else ""
        super().__init__(f"{reason}{where}", param=param)
        self.pointer = pointer
        self.reason = reason

    def about(self, param: str) -> Self:
        """Return the same error about the field `param`."""
        return type(self)(self.reason, pointer=self.pointer, param=param)


class InvalidGrammar(GrammarError):
    code = "invalid_schema"


class UnsupportedGrammar(GrammarError):
    code = "unsupported_schema"


class Unsatisfiable(GrammarError):
    code = "unsatisfiable_schema"


class GrammarLimit(GrammarError):
    code = "schema_limit_exceeded"


class GrammarTooCostly(GrammarLimit):
    """Raised while tokens are generated: following the text took more CPU time than one sequence may take. Nothing of
    the answer may be taken for whole."""

    code = "grammar_too_costly"


SEND_AGAIN = "send the request again, and tell the operator if it fails again"
"""What a caller can do about a failure that is ours, whose cause is for operators alone."""


class ServiceError(SluicegateError):
    """The caller did nothing wrong. `status` is the HTTP status; `cause` is what broke, as a trace shows it to
    operators. Callers never get it."""

    kind = "server_error"
    status = 500

    def __init__(self, message: str, *, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class Overloaded(ServiceError):
    code = "overloaded"
    status = 503

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class AuditUnavailable(Overloaded):
    """The audit log cannot be written. The operator's change was not made."""

    code = "audit_unavailable"


class BooksUnavailable(Overloaded):
    """Keys, limits or usage cannot be read or written now, as with a full disk or a lost store. Nothing was charged."""

    code = "books_unavailable"


class UpstreamUnavailable(Overloaded):
    """Another server failed repeatedly and is not called for a while; it is retried automatically. No queue here is
    full."""

    code = "upstream_unavailable"


class StorageFailed(ServiceError):
    """The disk took no data; nothing was stored. The same call may be repeated once there is space."""

    code = "insufficient_storage"
    status = 507

    def __init__(self, message: str, *, retry_after_s: float = 30.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelLoadError(ServiceError):
    code = "model_load_error"


class UpstreamFailed(ServiceError):
    code = "upstream_failed"
    status = 502


class RetrievalFailed(ServiceError):
    code = "retrieval_failed"
    status = 502


class DeadlineExceeded(ServiceError):
    """Nothing of the answer may be taken for whole: it was stopped wherever it was."""

    code = "deadline_exceeded"
    status = 504


class GenerationFailed(ServiceError):
    code = "generation_failed"


class StageFailed(ServiceError):
    """A stage threw, answered nonsense or ran out of its time. Fail closed: nothing was released because of it. With
    `retry_after_s` the stage is out of the way after repeated failures, and nobody waits for it until then (503). With
    `status` it is what the stage needs that failed: 502 or 504 where that is another server."""

    code = "stage_failed"

    def __init__(
        self,
        slot: str,
        stage: str,
        reason: str,
        retry_after_s: float | None = None,
        *,
        cause: str = "",
        status: int = 500,
    ) -> None:
        """Word the message from `reason`, which callers read."""
        super().__init__(f"stage {stage!r} of slot {slot!r} failed: {reason}", cause=cause)
        self.slot = slot
        self.stage = stage
        self.retry_after_s = retry_after_s
        self.status = status if retry_after_s is None else 503


MOST_EXACT = 2**53
"""Up to here a float holds every whole number."""


def plain(value: float) -> str:
    """Return a whole number with all its digits, where the format `g` gives `1e+15`, and 1234567 as `1.23457e+06`; any
    other below a million with six digits, above it with two places."""
    if abs(value) <= MOST_EXACT and value == int(value):
        return str(int(value))
    return f"{value:.2f}" if 1e6 <= abs(value) <= MOST_EXACT else f"{value:g}"
