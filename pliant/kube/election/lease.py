"""The Lease object, its timings and the identity of a candidate."""

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
    """The holder of a lease. Its timestamps are not read: they come from the clock of another machine."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """Lease duration, the deadline of the leader to renew the lease, and the interval of renewals."""

    duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.retry_period < self.renew_deadline < self.duration >= timedelta(seconds=1):
            raise UserError(
                "the lease duration must be at least 1s and longer than the renew deadline, which must be longer than "
                f"the retry period; got {self.duration}, {self.renew_deadline} and {self.retry_period}"
            )

    @classmethod
    def from_duration(
        cls, duration: timedelta, renew_deadline: timedelta | None = None, retry_period: timedelta | None = None
    ) -> LeaseTimings:
        """Derive the timings from the duration: by default 2/3 of it for the deadline and 2/15 for the period."""
        return cls(
            duration=duration,
            renew_deadline=renew_deadline or duration * 2 / 3,
            retry_period=retry_period or duration * 2 / 15,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCandidate:
    namespace: str
    name: str
    identity: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def process_identity() -> str:
    """Return a unique identity, which differs even from that of a restarted process in the same pod."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
