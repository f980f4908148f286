"""Members as tests speak of them."""

from __future__ import annotations

from datetime import UTC, datetime

from pliant.master.model import JobMember, MemberKey, MemberStatus
from pliant.model.job_keys import KeyPurpose

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = {KeyPurpose.MASTER: "to-change", KeyPurpose.MEMBERSHIP: "to-read"}
KEY_VARIABLES = {"PLIANT_MASTER_KEY": "to-change", "PLIANT_MEMBERSHIP_KEY": "to-read"}


def with_key(purpose: KeyPurpose) -> dict[str, str]:
    """The header of a member."""
    return {"Authorization": f"Bearer {KEYS[purpose]}"}


def node(name: str, status: MemberStatus = MemberStatus.RUNNING, rank: int | None = None) -> JobMember:
    """A member by its name, as `worker-3`; its rank is its id unless another is given."""
    kind, _, number = name.rpartition("-")
    key = MemberKey(kind, int(number))
    return JobMember(
        key=key,
        rank=key.id if rank is None else rank,
        pod_name=f"demo-edljob-{name}",
        status=status,
        created_at=EPOCH,
        address=f"demo-edljob-{kind}-{key.id}:3333",
    )


def running(count: int) -> tuple[JobMember, ...]:
    """So many workers."""
    return tuple(node(f"worker-{number}") for number in range(count))
