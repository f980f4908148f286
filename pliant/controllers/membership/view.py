"""What the replicas of one job may learn: computed once per change of the job, and shared by all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pliant.controllers.membership.replica_path import UnknownReplica, split_replica_name
from pliant.engine.members import list_members
from pliant.engine.plans.membership import job_in_effect
from pliant.frontends.accepted_spec import parse_stored_job
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.engine_state import STATE_FIELD, raw_status
from pliant.model.departures import Departure
from pliant.model.job import Job
from pliant.model.labels import normalize_group_name, replica_pod_name
from pliant.model.state import EngineState

_STATE_INPUTS = ("membership", "departures")


class MembershipView:
    """The membership and the checkpoint requests of a job; the list of members is encoded once."""

    def __init__(self, job: Job, state: EngineState | None) -> None:
        self._job = job
        self._groups = {normalize_group_name(group.name): group.name for group in job.groups}
        membership = state.membership if state is not None else None
        self.generation = membership.generation if membership is not None else 0
        members = list_members(job_in_effect(job, state), state) if state is not None else []
        self._ranks = {member.name: member.rank for member in members}
        self._members = b',"members":%b,"checkpoint":' % msgspec.json.encode(members)
        self._departures: dict[str, tuple[str, Departure]] = {}
        for uid, departure in state.departures.items() if state is not None else ():
            name = f"{normalize_group_name(departure.group)}-{departure.index}"
            if name not in self._departures or self._departures[name][1].request < departure.request:
                self._departures[name] = uid, departure

    def departure(self, replica: str) -> tuple[str, Departure] | None:
        """Return the UID of the pod and the departure of a replica that has not saved its state yet."""
        found = self._departures.get(replica)
        return found if found is not None and found[1].acknowledged_at is None else None

    def pod_name(self, replica: str) -> str:
        """Return the name of the pod of a replica; raise UnknownReplica if the job has no such group."""
        group, index = split_replica_name(replica) or ("", -1)
        if group not in self._groups:
            raise UnknownReplica(f"not found: the job has no replica {replica}")
        return replica_pod_name(self._job, self._groups[group], index)

    def encode_reply(self, replica: str, departure: Departure | None) -> tuple[bytes, ...]:
        """Return the reply to a replica; replies to different replicas share the bytes of the members."""
        rank = self._ranks.get(replica)
        head = b'{"generation":%d,"rank":%b' % (self.generation, b"null" if rank is None else b"%d" % rank)
        return head, self._members, msgspec.json.encode(checkpoint_request(departure)) + b"}\n"


def build_view(frontend: Frontend, raw: Mapping[str, Any]) -> MembershipView:
    """Return the view of the object of a job; raise InvalidSpec if it is invalid."""
    parsed = parse_stored_job(frontend, raw)
    return MembershipView(parsed.job, parsed.state)


def view_inputs(raw: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """Return what a view depends on: most changes of a job, such as reports, do not change it."""
    if raw is None:
        return ()
    state = raw_status(raw).get(STATE_FIELD)
    state = state if isinstance(state, Mapping) else {}
    return raw["metadata"].get("uid"), raw["metadata"].get("generation"), *map(state.get, _STATE_INPUTS)


def checkpoint_request(departure: Departure | None) -> dict[str, Any] | None:
    """Return a checkpoint request as replicas get it."""
    if departure is None:
        return None
    return {"id": departure.request, "reason": departure.reason, "deadline": departure.deadline}
