"""Every error Pliant raises, named by who must act on it.

PliantError
├── UserError            the person who typed it: told once, never retried
│   ├── InvalidSpec      a field of a resource, named by its path
│   ├── NoCluster        nobody said which cluster, and nowhere is one to be found
│   └── NotPossibleHere  this machine or cluster lacks something, and how to get it
├── NotYet               nobody: the world has to move on first, look again later
├── BrokenPlugin         whoever installed it: it is left out, and named once
├── LeaseLost            nobody: somebody else may be leading by now, so all work must stop
└── ApiError             whatever the API server answered with
    ├── BadRequest       400: we sent nonsense
    ├── Unauthorized     401: credentials missing or expired
    ├── Forbidden        403: credentials lack a right
    ├── NotFound         404
    ├── Conflict         409: somebody else wrote first, read again
    │   └── AlreadyExists
    ├── Gone             410: the version asked for is no longer kept, list again
    ├── Invalid          422: the object does not fit its schema
    ├── TooManyRequests  429: slow down, after `retry_after` seconds
    ├── ServerError      5xx: try again
    └── Unreachable      no answer at all: it may or may not have happened
"""

from __future__ import annotations

from typing import Any


class PliantError(Exception):
    """The root of every error raised on purpose."""


class UserError(PliantError):
    """Something a person asked for cannot be done; the message says what to change."""


class InvalidSpec(UserError):
    """A field of a resource holds a value that cannot be used."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class NoCluster(UserError):
    """Nobody said which cluster to talk to, and nowhere is one to be found."""


class UnsupportedEnvironment(UserError):
    """This machine or cluster lacks what was asked for; the message says how to get it."""


class RetryLater(PliantError):
    """The world must move on before this can be done; the queue backs off and looks again."""


class BrokenPlugin(PliantError):
    """A kind or a framework that somebody added cannot be used; all others can."""


class LeaseLost(PliantError):
    """The time in which only we may act is over; whoever is restarted competes again."""


class ApiError(PliantError):
    """An answer of the API server other than success."""

    def __init__(self, status: int, reason: str, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after: float | None = None


class BadRequest(ApiError):
    """400: the request itself makes no sense."""


class Unauthorized(ApiError):
    """401: credentials are missing or expired."""


class Forbidden(ApiError):
    """403: the credentials lack a right."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Conflict(ApiError):
    """409: somebody else wrote first."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name is there."""


class Gone(ApiError):
    """410: the resource version asked for is no longer kept."""


class Invalid(ApiError):
    """422: the object does not fit its schema."""


class TooManyRequests(ApiError):
    """429: the server asks for patience."""


class ServerError(ApiError):
    """5xx: the server failed; trying again may help."""


class Unreachable(ApiError):
    """No answer arrived: the request may or may not have taken effect."""

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
    """The error class that fits an HTTP status and a Status reason."""
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists(status, reason, message, details=details)
    family = _ERROR_BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return family(status, reason, message, details=details)
