"""What a lease is, for how long, and who wants it."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from pliant.errors import UserError
from pliant.kube.objects import ObjectMeta


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds a lease and for how long. Its times are for people: they are another machine's."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """A lease as the API server keeps it."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """How long a lease lasts unrenewed, when its holder gives up, and how often it renews."""

    duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.retry_period < self.renew_deadline < self.duration >= timedelta(seconds=1):
            raise UserError(
                "a lease must last at least 1s and longer than its renew deadline, which must be longer than the "
                f"retry period; got {self.duration}, {self.renew_deadline} and {self.retry_period}"
            )

    @classmethod
    def from_duration(
        cls, duration: timedelta, renew_deadline: timedelta | None = None, retry_period: timedelta | None = None
    ) -> LeaseTimings:
        """Terms for a duration; what is not said keeps its usual proportion to it."""
        return cls(
            duration=duration,
            renew_deadline=renew_deadline or duration * 2 / 3,
            retry_period=retry_period or duration * 2 / 15,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCandidate:
    """Who competes for which lease."""

    namespace: str
    name: str
    identity: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def process_identity() -> str:
    """A name for this process that no other bears, not even its successor in the same pod."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
