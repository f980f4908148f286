"""Members as tests speak of them."""

from __future__ import annotations

from datetime import UTC, datetime

from pliant.master.model import Node, NodeKey, NodeStatus

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def node(name: str, status: NodeStatus = NodeStatus.RUNNING, rank: int | None = None) -> Node:
    """A member by its name, as `worker-3`; its rank is its id unless another is given."""
    kind, _, number = name.rpartition("-")
    key = NodeKey(kind, int(number))
    return Node(
        key=key,
        rank=key.id if rank is None else rank,
        pod=f"demo-edljob-{name}",
        status=status,
        created_at=EPOCH,
        address=f"demo-edljob-{kind}-{key.id}:3333",
    )


def running(count: int) -> tuple[Node, ...]:
    """So many workers."""
    return tuple(node(f"worker-{number}") for number in range(count))
