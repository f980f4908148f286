"""Whether the status of a job tells the truth."""

from __future__ import annotations

from pliant.controllers.job import resource_of
from pliant.errors import InvalidSpec
from pliant.frontends import FRONTENDS
from pliant.frontends.accepted_spec import is_managed_externally
from pliant.frontends.status.rejection import find_rejection, list_conditions
from pliant.kube.resources import PODS
from pliant.model.state import JobPhase
from tests.edits.jobs import KindKey, Raw
from tests.hostile.stage import HOSTILE, Cluster


async def check_status(stage: Cluster, kind: KindKey, name: str) -> None:
    """A refused spec is reported with its field; an accepted one has a status of its generation and true counts."""
    frontend = FRONTENDS[kind]
    raw: Raw = dict(await stage.client.get(resource_of(frontend), HOSTILE, name))
    if raw["metadata"].get("deletionTimestamp"):
        return
    status = raw.get("status") or {}
    told = find_rejection(status, frontend.conditions_path) or frontend.has_validation_error(status)
    try:
        state = frontend.load_state(raw)
        job = frontend.parse(raw, state)
    except InvalidSpec as error:
        if not told:
            raise AssertionError(f"the status does not say that {error}") from None
        return
    if is_managed_externally(job):
        return
    conditions = list_conditions(status, frontend.conditions_path)
    if state is None:
        assert conditions or status.get("message"), status
        return
    if find_rejection(status, frontend.conditions_path):
        return
    if not state.phase.is_final:
        assert state.observed_generation == raw["metadata"]["generation"], status
    pods = [
        pod
        for pod in (await stage.client.list(PODS, HOSTILE)).items
        if any(owner["uid"] == raw["metadata"]["uid"] for owner in pod["metadata"].get("ownerReferences", ()))
    ]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    counted = sum(each.active for each in state.replica_counts.values())
    assert counted == len(running), (counted, len(running), status)
    if not pods and not state.phase.is_final and state.phase is not JobPhase.SUSPENDED and not job.is_suspended:
        assert conditions[-1].get("message") or status.get("message"), status
