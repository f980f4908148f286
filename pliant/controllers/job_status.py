"""Writes the status of jobs, and reports specs and statuses that are rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pliant.controllers.events import EventRecorder
from pliant.controllers.progress_reports import ProgressReceiver, progress_fields
from pliant.errors import Invalid, InvalidSpec, RetryLater
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.engine_state import STATE_FIELD, raw_status
from pliant.frontends.status.rejection import (
    list_conditions,
    replace_conditions,
    with_rejection,
    with_same_rejection,
    without_rejection,
)
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.codec import build_merge_patch
from pliant.kube.resources import Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.actions import EmitEvent, JobStatusUpdate
from pliant.model.job import Job, JobKey, Owner
from pliant.model.messages import Message, MessageReason, message
from pliant.runtime.clock import Clock

MAX_ERROR_CHARS = 600
"""The length of an error in an event, whose note may have 1024 bytes."""


class JobStatusWriter:
    def __init__(
        self,
        frontend: Frontend,
        resource: Resource,
        client: KubeClient,
        clock: Clock,
        jobs: ObjectStore[dict[str, Any]],
        events: EventRecorder,
    ) -> None:
        self._frontend = frontend
        self._resource = resource
        self._client = client
        self._clock = clock
        self._jobs = jobs
        self._events = events

    async def write(
        self, job: Job, raw: Mapping[str, Any], status: JobStatusUpdate, receiver: ProgressReceiver | None
    ) -> None:
        """Write the status that the engine decided, with the progress that the replicas reported."""
        before = raw_status(raw)
        progress = receiver.status_fields(job, before) if receiver else {}
        path = self._frontend.conditions_path
        rendered = self._frontend.render_status(status, without_rejection(before, path), job)
        rendered = _with_observed_generation(rendered, path, status.state.observed_generation)
        rendered = with_same_rejection(rendered, path, before)
        await self._write_raw(job.key, raw, {**rendered, **progress_fields(before), **progress})

    async def sync_rejection(self, job: Job, raw: Mapping[str, Any], rejection: InvalidSpec | None) -> bool:
        """Add, update or remove the condition SpecRejected; return whether the status was written."""
        before, path = raw_status(raw), self._frontend.conditions_path
        if rejection is None:
            after = without_rejection(before, path)
        else:
            generation = raw["metadata"].get("generation", 0)
            after = with_rejection(before, path, rejection, self._clock.now(), generation)
        if after == before:
            return False
        await self._write_raw(job.key, raw, after)
        if rejection is not None:
            self._emit_warning(job.key, raw, message(MessageReason.SPEC_REJECTED, message=str(rejection)))
        return True

    async def reject_spec(self, key: JobKey, raw: Mapping[str, Any], error: InvalidSpec) -> None:
        generation = raw["metadata"].get("generation", 0)
        status = self._frontend.add_validation_error(error, raw_status(raw), self._clock.now(), generation)
        warning = message(MessageReason.INVALID_SPEC, message=str(error))
        try:
            await self._write_raw(key, raw, status)
        except Invalid:
            self._emit_warning(key, raw, warning)  # all that a user sees of the problem
            raise
        self._emit_warning(key, raw, warning)

    def report_rejected_status(self, key: JobKey, raw: Mapping[str, Any], error: Invalid) -> None:
        """Emit an event: without a status, nothing else would explain why the operator does not run the job."""
        fields = [str(cause.get("field", "")) for cause in error.details.get("causes") or ()]
        is_spec = any(field and not field.startswith("status") for field in fields)
        fix = "correct the job" if is_spec else f"install the CRD of Pliant: {self._crd_command}"
        rejected = message(MessageReason.STATUS_REJECTED, error=str(error)[:MAX_ERROR_CHARS], fix=fix)
        self._emit_warning(key, raw, rejected)

    async def _write_raw(self, key: JobKey, raw: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Write a status, provided that the object has not changed since it was read."""
        change = build_merge_patch(raw_status(raw), status)
        if not change:
            return
        patch = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "status": change}
        client = self._client.for_flow(WriteFlow(*key))
        written = await client.patch(self._resource, key.namespace, key.name, patch, subresource="status")
        self._jobs.apply_own_write(written)
        if status.get(STATE_FIELD) and not raw_status(written).get(STATE_FIELD):
            self._report_pruned_status(key, raw)

    def _report_pruned_status(self, key: JobKey, raw: Mapping[str, Any]) -> None:
        """Report that the engine state of a job is lost: every reconcile would repeat the same decision."""
        problem = (
            f"the installed CRD prunes status.{STATE_FIELD} of {self._resource.kind}: engine state cannot be persisted"
        )
        fix = f"install ours: {self._crd_command}"
        self._emit_warning(key, raw, message(MessageReason.STATUS_PRUNED, message=f"{problem}; {fix}"))
        raise RetryLater(f"{problem}; {fix}")

    @property
    def _crd_command(self) -> str:
        return f"pliant crds --kinds {self._resource.full_name} | kubectl apply -f -"

    def _emit_warning(self, key: JobKey, raw: Mapping[str, Any], text: Message) -> None:
        resource, uid = self._resource, raw["metadata"]["uid"]
        owner = Owner(api_version=resource.api_version, kind=resource.kind, name=key.name, uid=uid)
        event = EmitEvent(reason=str(text.reason), message=text, is_warning=True)
        self._events.emit(owner, key.namespace, event)


def _with_observed_generation(status: dict[str, Any], path: Sequence[str], generation: int) -> dict[str, Any]:
    """Set the generation of all conditions: `kubectl wait` ignores a condition of an earlier one."""
    conditions = list_conditions(status, path)
    if not generation or all(each.get("observedGeneration", generation) == generation for each in conditions):
        return status
    observed = {"observedGeneration": generation}
    return replace_conditions(status, path, [{**each, **observed} for each in conditions])
