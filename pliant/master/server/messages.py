"""The JSON messages of members to the master; an invalid message is rejected with the name of its field."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec

from pliant.errors import InvalidSpec
from pliant.master.data.shards import MemberProcess
from pliant.master.model import Heartbeat, MemberKey

_MEMBER_NAME = re.compile(r"([a-z][-a-z0-9]{0,62})-([0-9]{1,9})")

NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
NonNegativeFloat = Annotated[float, msgspec.Meta(ge=0, le=2.0**53)]
CpuCores = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
MemberAddress = Annotated[str, msgspec.Meta(max_length=300)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""JSON has larger integers, but not every decoder can read them."""
ShardPositions = Annotated[list[NonNegativeInt], msgspec.Meta(max_length=1000)]
WaitSeconds = Annotated[float, msgspec.Meta(ge=0, le=60)]

T = TypeVar("T")


class MemberMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The sender: a member such as `worker-3`, and one of its processes."""

    member: str
    process: NonNegativeInt = 0

    @property
    def sender(self) -> MemberProcess:
        """Return the sender; raise `InvalidSpec` if the name is invalid."""
        match = _MEMBER_NAME.fullmatch(self.member)
        if match is None:
            raise InvalidSpec("member", f"{self.member!r}: must be type and id, such as `worker-3`")
        return MemberProcess(MemberKey(match[1], int(match[2])), self.process)


class DatasetRegistration(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: Int64
    shard_size: Int64
    epochs: Int64 = 1
    shuffle: Int64 | None = None


class ShardReport(MemberMessage, frozen=True, kw_only=True):
    done: ShardPositions = []
    failed: ShardPositions = []


class ShardRequest(ShardReport, frozen=True, kw_only=True):
    """Reports shards and requests another; `holding` names all other shards of the sender."""

    holding: ShardPositions = []
    wait: WaitSeconds = 20.0


class RendezvousJoinRequest(MemberMessage, frozen=True, kw_only=True):
    address: MemberAddress = ""
    ticket: NonNegativeInt | None = None  # the round in an earlier response; None joins again
    wait: WaitSeconds = 20.0


class HeartbeatRequest(MemberMessage, frozen=True, kw_only=True):
    step: NonNegativeInt | None = None
    samples: NonNegativeFloat | None = None
    cpu: CpuCores | None = None
    memory: NonNegativeInt | None = None
    ps_version: NonNegativeInt | None = None
    round: NonNegativeInt | None = None  # the rendezvous round in which the process works
    generation: NonNegativeInt = 0
    holding: dict[str, ShardPositions] = {}
    done: dict[str, ShardPositions] = {}
    """Shards completed recently, by dataset; they may have been reported before, also to an earlier master."""

    def to_heartbeat(self, at: datetime) -> Heartbeat:
        return Heartbeat(
            at=at, step=self.step, samples=self.samples, ps_version=self.ps_version, cpu=self.cpu, memory=self.memory
        )


def decode_message(body: bytes, message_type: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=message_type)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `$.")
        raise InvalidSpec(field.rstrip("`") or "body", problem) from None
    except msgspec.DecodeError as error:
        raise InvalidSpec("body", f"must be a JSON object: {error}") from None
