"""What members send to the master, in JSON; what does not fit is refused with the name of the field."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

import msgspec

from pliant.errors import InvalidSpec
from pliant.master.beats import Told
from pliant.master.model import NodeKey
from pliant.master.shards import Holder

_MEMBER = re.compile(r"([a-z][-a-z0-9]{0,62})-([0-9]{1,9})")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=2.0**53)]
Cores = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Address = Annotated[str, msgspec.Meta(max_length=300)]
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What is written down must be read again: JSON has larger ones, and few who understand them."""
Positions = Annotated[list[Count], msgspec.Meta(max_length=1000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=60)]

T = TypeVar("T")


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends it: a member, as `worker-3`, and one of its processes."""

    member: str
    process: Count = 0

    @property
    def holder(self) -> Holder:
        """The sender; raises InvalidSpec if it does not name itself."""
        found = _MEMBER.fullmatch(self.member)
        if found is None:
            raise InvalidSpec("member", f"{self.member!r}: must be type and id, as `worker-3`")
        return Holder(NodeKey(found[1], int(found[2])), self.process)


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A data set to be learned."""

    name: str
    size: Number
    shard_size: Number
    epochs: Number = 1
    shuffle: Number | None = None


class ShardReport(Sender, frozen=True, kw_only=True):
    """What became of shards."""

    done: Positions = []
    failed: Positions = []


class ShardRequest(ShardReport, frozen=True, kw_only=True):
    """The same, and one more is wanted; all that the sender holds besides is named."""

    holding: Positions = []
    wait: Seconds = 20.0


class Joining(Sender, frozen=True, kw_only=True):
    """A worker that wants to take part in the next round."""

    address: Address = ""
    ticket: Count | None = None
    """The round that an earlier answer said to wait for; None joins anew."""
    wait: Seconds = 20.0


class BeatReport(Sender, frozen=True, kw_only=True):
    """How a process fares."""

    step: Count | None = None
    samples: Amount | None = None
    cpu: Cores | None = None
    memory: Count | None = None
    ps_version: Count | None = None
    round: Count | None = None
    """The round it works in, if it works in one."""
    generation: Count = 0
    holding: dict[str, Positions] = {}
    """Shards it is at, by data set."""
    done: dict[str, Positions] = {}
    """Those it has just done, likewise; told before, perhaps to another master."""

    @property
    def told(self) -> Told:
        """The figures."""
        return Told(
            step=self.step,
            samples=self.samples,
            cpu=self.cpu,
            memory=self.memory,
            ps_version=self.ps_version,
        )


def parsed(body: bytes, into: type[T]) -> T:
    """A message out of JSON; raises InvalidSpec naming the field that does not fit."""
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise InvalidSpec(place.rstrip("`") or "body", problem) from None
    except msgspec.DecodeError as error:
        raise InvalidSpec("body", f"must be a JSON object: {error}") from None
