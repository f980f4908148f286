"""All errors that Pliant raises deliberately: user errors, retries and responses of the API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PliantError(Exception):
    """The base class of all errors."""


class UserError(PliantError):
    """The user requested something that cannot be done; the message says what to change. Never retried."""


class InvalidSpec(UserError):
    """A field of a resource has an invalid value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class NoCluster(UserError):
    """No cluster is configured, and none was found."""


class UnsupportedEnvironment(UserError):
    """This machine or cluster lacks a required feature; the message says how to get it."""


class DamagedDatabase(UnsupportedEnvironment):
    """The database of a local cluster is damaged; the message names it and the way out."""


class JobFailed(PliantError):
    """A job did not succeed, and the caller of the Python API asked for an error (`check=True`)."""

    def __init__(
        self, message: str, *, phase: str, replica: str, exit_code: int | None, last_lines: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.replica = replica
        """The replica that is the root cause; empty if there is none."""
        self.exit_code = exit_code
        self.last_lines = tuple(last_lines)


class RetryLater(PliantError):
    """The operation is not possible yet; the work queue retries it with backoff."""


class StaleDecision(RetryLater):
    """The object of a decision changed before the decision was carried out; nothing was sent."""


class BrokenPlugin(PliantError):
    """A plugin cannot be used; it is skipped and reported once."""


class LeaseLost(PliantError):
    """This process is no longer the leader: another one may be, so all work must stop."""


class ApiError(PliantError):
    """An error response of the API server."""

    def __init__(self, status: int, reason: str, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after: float | None = None


class BadRequest(ApiError):
    """400: the request is malformed."""


class Unauthorized(ApiError):
    """401: credentials are missing or expired."""


class ExpiredCredentials(Unauthorized):
    """401: the credentials have expired; the message says which."""


class Forbidden(ApiError):
    """403: the credentials lack a permission."""


class NotFound(ApiError):
    """404: the object or the resource does not exist."""


class Conflict(ApiError):
    """409: the object was modified by another client; read it again."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class Gone(ApiError):
    """410: the requested resource version has expired; list again."""


class Invalid(ApiError):
    """422: the object fails validation."""


class TooManyRequests(ApiError):
    """429: retry after `retry_after` seconds."""


class ServerError(ApiError):
    """5xx: the server failed; a retry may succeed."""


class Unreachable(ApiError):
    """There was no response: the request may or may not have taken effect."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


_ERROR_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def make_api_error(status: int, reason: str, message: str, *, details: dict[str, Any] | None = None) -> ApiError:
    """Return the error for the HTTP status and the reason of a Status object."""
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists(status, reason, message, details=details)
    error_class = _ERROR_BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return error_class(status, reason, message, details=details)
