"""The status of a Deployment: counts, availability and the progress of its rollout; pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pliant.embedded.controllers.workloads.rollout import max_unavailable, total_available, total_size
from pliant.embedded.controllers.workloads.views import Deployment, Object, ReplicaSet
from pliant.kube.timestamps import format_timestamp

NO_DEADLINE = 2**31 - 1
_AVAILABLE, _PROGRESSING, _REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
_COMPLETED_REASON = "NewReplicaSetAvailable"
_TIMED_OUT_REASON = "ProgressDeadlineExceeded"
_PAUSED_REASON, _RESUMED_REASON = "DeploymentPaused", "DeploymentResumed"

Condition = dict[str, Any]


def make_condition(condition_type: str, status: str, reason_and_message: tuple[str, str], now: datetime) -> Condition:
    stamp = format_timestamp(now)
    reason, message = reason_and_message
    times = {"lastUpdateTime": stamp, "lastTransitionTime": stamp}
    return {"type": condition_type, "status": status, **times, "reason": reason, "message": message}


def progress_condition(status: str, reason: str, message: str, now: datetime) -> Condition:
    return make_condition(_PROGRESSING, status, (reason, message), now)


class DeploymentStatusBuilder:
    """Builds the next status of a Deployment from its present one and its ReplicaSets."""

    def __init__(self, deployment: Deployment, now: datetime) -> None:
        self._deployment = deployment
        self._now = now
        self._previous = deployment.status
        self._conditions: list[Condition] = list(deployment.status.get("conditions") or ())

    def set_condition(self, condition: Condition) -> None:
        """Add or replace a condition; an equal one keeps its times, one with the same status its transition."""
        known = self.find_condition(condition["type"])
        if known is not None and (known["status"], known.get("reason")) == (condition["status"], condition["reason"]):
            return
        if known is not None and known["status"] == condition["status"]:
            condition = {**condition, "lastTransitionTime": known.get("lastTransitionTime")}
        self._replace_condition(condition)

    def find_condition(self, condition_type: str) -> Condition | None:
        return next((each for each in self._conditions if each["type"] == condition_type), None)

    def mark_paused(self) -> None:
        """Set the condition of a paused or resumed Deployment, unless its rollout has timed out."""
        known = self.find_condition(_PROGRESSING)
        reason = known.get("reason") if known is not None else ""
        if not self._has_deadline or reason == _TIMED_OUT_REASON:
            return
        if self._deployment.spec.paused:
            self.set_condition(progress_condition("Unknown", _PAUSED_REASON, "Deployment is paused", self._now))
        elif reason == _PAUSED_REASON:
            self.set_condition(progress_condition("Unknown", _RESUMED_REASON, "Deployment is resumed", self._now))

    def build(self, replica_sets: Sequence[ReplicaSet], new: ReplicaSet | None, *, estimates_progress: bool) -> Object:
        status = self._build_counts(replica_sets, new)
        self._set_availability(total_available(replica_sets))
        if estimates_progress:
            if not self._has_deadline:
                self._drop_condition(_PROGRESSING)
            else:
                self._estimate_progress(status, new)
            self._set_replica_failure(replica_sets, new)
        return {**status, **({"conditions": self._conditions} if self._conditions else {})}

    def time_until_deadline(self, status: Object) -> timedelta | None:
        """Return when a rollout without progress must be checked again; None if it is complete or timed out."""
        known = self.find_condition(_PROGRESSING)
        is_open = known is not None and known.get("reason") not in (_COMPLETED_REASON, _TIMED_OUT_REASON)
        if known is None or not is_open or not self._has_deadline or self._deployment.spec.paused:
            return None
        deadline = self._updated_at(known) + timedelta(seconds=self._deployment.spec.progress_deadline_seconds)
        return max(deadline - self._now, timedelta(0)) + timedelta(seconds=1)

    def _updated_at(self, condition: Condition) -> datetime:
        """Return when a condition was updated; a condition that a user wrote may lack the time."""
        timestamp = condition.get("lastUpdateTime")
        return datetime.fromisoformat(timestamp) if timestamp else self._now

    @property
    def _has_deadline(self) -> bool:
        return self._deployment.spec.progress_deadline_seconds != NO_DEADLINE

    def _build_counts(self, replica_sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> Object:
        def total(field: str) -> int:
            return sum(int(each.status.get(field) or 0) for each in replica_sets)

        available = total_available(replica_sets)
        counts = {
            "replicas": total("replicas"),
            "updatedReplicas": int(new.status.get("replicas") or 0) if new is not None else 0,
            "readyReplicas": total("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(total_size(replica_sets) - available, 0),
            "collisionCount": int(self._previous.get("collisionCount") or 0),
        }
        return {
            "observedGeneration": self._deployment.metadata.generation,
            **{field: count for field, count in counts.items() if count},
            "terminatingReplicas": total("terminatingReplicas"),
        }

    def _set_availability(self, available: int) -> None:
        deployment = self._deployment
        if available >= deployment.spec.replicas - max_unavailable(deployment):
            text = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
            self.set_condition(make_condition(_AVAILABLE, "True", text, self._now))
        else:
            text = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
            self.set_condition(make_condition(_AVAILABLE, "False", text, self._now))

    def _estimate_progress(self, status: Object, new: ReplicaSet | None) -> None:
        known = self.find_condition(_PROGRESSING)
        is_settled = status.get("replicas", 0) == status.get("updatedReplicas", 0)
        if is_settled and known is not None and known.get("reason") == _COMPLETED_REASON:
            return
        subject = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{self._deployment.metadata.name}"'
        if is_complete(self._deployment, status):
            message = f"{subject} has successfully progressed."
            self.set_condition(progress_condition("True", _COMPLETED_REASON, message, self._now))
        elif self._has_progressed(status):
            message = f"{subject} is progressing."
            condition = progress_condition("True", "ReplicaSetUpdated", message, self._now)
            if known is not None and known["status"] == "True":
                condition["lastTransitionTime"] = known.get("lastTransitionTime")
            self._replace_condition(condition)
        elif self._is_timed_out(known):
            message = f"{subject} has timed out progressing."
            self.set_condition(progress_condition("False", _TIMED_OUT_REASON, message, self._now))

    def _has_progressed(self, status: Object) -> bool:
        old = self._previous

        def outdated(counts: Object) -> int:
            return int(counts.get("replicas") or 0) - int(counts.get("updatedReplicas") or 0)

        grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return outdated(status) < outdated(old) or any((status.get(x) or 0) > (old.get(x) or 0) for x in grown)

    def _is_timed_out(self, known: Condition | None) -> bool:
        if known is None or known.get("reason") == _COMPLETED_REASON:
            return False
        deadline = timedelta(seconds=self._deployment.spec.progress_deadline_seconds)
        return known.get("reason") == _TIMED_OUT_REASON or self._updated_at(known) + deadline < self._now

    def _set_replica_failure(self, replica_sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> None:
        ordered = [*([new] if new is not None else ()), *replica_sets]
        failures = (x for each in ordered for x in each.status.get("conditions") or () if x["type"] == _REPLICA_FAILURE)
        failure = next(failures, None)
        if failure is None:
            self._drop_condition(_REPLICA_FAILURE)
            return
        text = (failure.get("reason", ""), failure.get("message", ""))
        self.set_condition(make_condition(_REPLICA_FAILURE, failure["status"], text, self._now))

    def _replace_condition(self, condition: Condition) -> None:
        self._drop_condition(condition["type"])
        self._conditions.append(condition)

    def _drop_condition(self, condition_type: str) -> None:
        self._conditions = [each for each in self._conditions if each["type"] != condition_type]


def is_complete(deployment: Deployment, status: Object) -> bool:
    """Return whether all pods have the present template and are available, and no others are left."""
    replicas = deployment.spec.replicas
    counts = [status.get(field) or 0 for field in ("updatedReplicas", "replicas", "availableReplicas")]
    is_observed = (status.get("observedGeneration") or 0) >= deployment.metadata.generation
    return is_observed and all(count == replicas for count in counts)
