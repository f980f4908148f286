"""The keys that requests to the master must carry, and the connections that have not carried one yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pliant.errors import UserError
from pliant.frameworks.master_keys import KEY_VARIABLES
from pliant.model.job_keys import KeyPurpose, bearer_key, is_same_key

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

PUBLIC_PATHS = ("/healthz", "/metrics")
"""Paths without a key. They return figures only: no names, addresses, UIDs or keys."""
UNAUTHENTICATED_TIMEOUT_SECONDS = 10.0
"""How long a connection may stay open without a request that carries a key."""
MAX_UNAUTHENTICATED_CONNECTIONS = 256
"""Beyond that, the oldest are closed: a member sends its key with its first request."""

ApiKeys = Mapping[KeyPurpose, str]
"""The keys of the job by purpose."""


def read_api_keys(environment: Mapping[str, str]) -> ApiKeys:
    """Return the keys that the operator has set in the environment; raise UserError if one is missing."""
    for variable in KEY_VARIABLES.values():
        if not environment.get(variable):
            problem = "the operator that started this master is older than the image of the master"
            raise UserError(f"{variable} is not set: {problem}; use the image of the operator (--master-image)")
    return {purpose: environment[variable] for purpose, variable in KEY_VARIABLES.items()}


def required_purpose(method: str, path: str) -> KeyPurpose | None:
    """Return the purpose of the key that a request needs: it reads, or it changes something. None for public paths."""
    if path in PUBLIC_PATHS:
        return None
    return KeyPurpose.MEMBERSHIP if method in ("GET", "HEAD") else KeyPurpose.MASTER


def find_key_problem(keys: ApiKeys, purpose: KeyPurpose, authorization: str) -> str:
    """Return why a request is rejected; empty if it carries the key."""
    key = bearer_key(authorization)
    if is_same_key(key, keys[purpose]):
        return ""
    problem = "this is not the key of this job for such requests" if key else "the key of the job is missing"
    return (
        f"Authorization: {problem}; send `Authorization: Bearer ${KEY_VARIABLES[purpose]}`, "
        "which the operator sets in every container of the job"
    )


class ConnectionGuard:
    """Closes connections that stay without a key, so that other pods cannot use up the master's file descriptors."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._opened_at: dict[RequestHandler, float] = {}
        self._trusted: set[RequestHandler] = set()

    def trust(self, connection: RequestHandler) -> None:
        """Keep a connection open: a request on it has carried the key."""
        self._trusted.add(connection)

    def close_untrusted(self, now: float) -> int:
        """Close connections that are without a key for too long, and the oldest of too many; return how many."""
        open_connections = self._server.connections
        self._trusted &= set(open_connections)
        untrusted = [each for each in open_connections if each not in self._trusted]
        self._opened_at = {each: self._opened_at.get(each, now) for each in untrusted}
        surplus = max(len(untrusted) - MAX_UNAUTHENTICATED_CONNECTIONS, 0)
        closed = [
            each
            for position, each in enumerate(untrusted)
            if position < surplus or now - self._opened_at[each] > UNAUTHENTICATED_TIMEOUT_SECONDS
        ]
        for connection in closed:
            if connection.transport is not None:
                connection.transport.abort()
        return len(closed)
