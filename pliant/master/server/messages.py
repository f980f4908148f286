"""What members send to the master, in JSON; what does not fit is refused with the name of the field."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

import msgspec

from pliant.errors import InvalidSpec
from pliant.master.data.shards import ShardLeaseHolder
from pliant.master.members.heartbeats import ProcessReport
from pliant.master.model import MemberKey

_MEMBER_NAME = re.compile(r"([a-z][-a-z0-9]{0,62})-([0-9]{1,9})")

NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
NonNegativeFloat = Annotated[float, msgspec.Meta(ge=0, le=2.0**53)]
CpuCores = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
MemberAddress = Annotated[str, msgspec.Meta(max_length=300)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What is written down must be read again: JSON has larger ones, and few who understand them."""
ShardPositions = Annotated[list[NonNegativeInt], msgspec.Meta(max_length=1000)]
WaitSeconds = Annotated[float, msgspec.Meta(ge=0, le=60)]

T = TypeVar("T")


class MemberMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends it: a member, as `worker-3`, and one of its processes."""

    member: str
    process: NonNegativeInt = 0

    @property
    def holder(self) -> ShardLeaseHolder:
        """The sender; raises InvalidSpec if it does not name itself."""
        found = _MEMBER_NAME.fullmatch(self.member)
        if found is None:
            raise InvalidSpec("member", f"{self.member!r}: must be type and id, as `worker-3`")
        return ShardLeaseHolder(MemberKey(found[1], int(found[2])), self.process)


class DatasetRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A data set to be learned."""

    name: str
    size: Int64
    shard_size: Int64
    epochs: Int64 = 1
    shuffle: Int64 | None = None


class ShardReport(MemberMessage, frozen=True, kw_only=True):
    """What became of shards."""

    done: ShardPositions = []
    failed: ShardPositions = []


class ShardRequest(ShardReport, frozen=True, kw_only=True):
    """The same, and one more is wanted; all that the sender holds besides is named."""

    holding: ShardPositions = []
    wait: WaitSeconds = 20.0


class RendezvousJoinRequest(MemberMessage, frozen=True, kw_only=True):
    """A worker that wants to take part in the next round."""

    address: MemberAddress = ""
    ticket: NonNegativeInt | None = None
    """The round that an earlier answer said to wait for; None joins anew."""
    wait: WaitSeconds = 20.0


class HeartbeatRequest(MemberMessage, frozen=True, kw_only=True):
    """How a process fares."""

    step: NonNegativeInt | None = None
    samples: NonNegativeFloat | None = None
    cpu: CpuCores | None = None
    memory: NonNegativeInt | None = None
    ps_version: NonNegativeInt | None = None
    round: NonNegativeInt | None = None
    """The round it works in, if it works in one."""
    generation: NonNegativeInt = 0
    holding: dict[str, ShardPositions] = {}
    """Shards it is at, by data set."""
    done: dict[str, ShardPositions] = {}
    """Those it has just done, likewise; told before, perhaps to another master."""

    @property
    def process_report(self) -> ProcessReport:
        """The figures."""
        return ProcessReport(
            step=self.step, samples=self.samples, cpu=self.cpu, memory=self.memory, ps_version=self.ps_version
        )


def decode_message(body: bytes, message_type: type[T]) -> T:
    """A message out of JSON; raises InvalidSpec naming the field that does not fit."""
    try:
        return msgspec.json.decode(body, type=message_type)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise InvalidSpec(place.rstrip("`") or "body", problem) from None
    except msgspec.DecodeError as error:
        raise InvalidSpec("body", f"must be a JSON object: {error}") from None
