"""Decides whether a Job has failed or succeeded, and builds its status; pure functions."""

from __future__ import annotations

from datetime import timedelta

from pliant.embedded.controllers.workloads.job_pods import JobPods
from pliant.embedded.controllers.workloads.job_policies import match_failure_policy, match_success_policy
from pliant.embedded.controllers.workloads.job_views import Condition, Job, completion_index, is_tracked, make_condition
from pliant.embedded.controllers.workloads.views import Object
from pliant.kube.objects import Pod
from pliant.kube.timestamps import format_timestamp

FAILURE_TARGET, SUCCESS_CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"
_SUSPENDED = "Suspended"


def decide_outcome(pods: JobPods) -> Condition | None:
    """Return the condition FailureTarget or SuccessCriteriaMet, kept once it is true; None if the job goes on."""
    job = pods.job
    for condition_type in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        if (known := job.true_condition(condition_type)) is not None:
            return known
    if (failure := _find_failure(pods)) is not None:
        return make_condition(FAILURE_TARGET, *failure, pods.now)
    if message := match_success_policy(job, pods.succeeded_indexes) if job.is_indexed else "":
        return make_condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message, pods.now)
    return None


def completed_condition(pods: JobPods) -> Condition:
    message = "Reached expected number of succeeded pods"
    return make_condition(SUCCESS_CRITERIA_MET, "CompletionsReached", message, pods.now)


def time_until_deadline(job: Job, pods: JobPods) -> timedelta | None:
    """Return the time until `activeDeadlineSeconds` is over; None if there is no deadline now."""
    deadline, started = job.spec.active_deadline_seconds, job.started_at
    if deadline is None or job.spec.suspend:
        return None
    return max((started or pods.now) + timedelta(seconds=deadline) - pods.now, timedelta(0))


def _find_failure(pods: JobPods) -> tuple[str, str] | None:
    """Return reason and message of a failed job."""
    job, spec = pods.job, pods.job.spec
    for pod in pods.pods if spec.pod_failure_policy is not None else ():
        if pods.is_failed(pod) and (match := match_failure_policy(job, pod)).action == "FailJob":
            return "PodFailurePolicy", match.message
    if pods.failed_count > spec.backoff_limit or _has_too_many_restarts(pods):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if job.started_at is not None and time_until_deadline(job, pods) == timedelta(0):
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    if spec.backoff_limit_per_index is not None:
        failed = pods.failed_indexes.total
        if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
            return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
        if failed and failed + pods.succeeded_indexes.total >= (spec.completions or 0):
            return "FailedIndexes", "Job has failed indexes"
    return None


def _has_too_many_restarts(pods: JobPods) -> bool:
    if pods.job.restart_policy != "OnFailure":
        return False
    running = [pod for pod in pods.pods if pod.status.phase in ("Pending", "Running")]
    restarts = sum(status.restart_count for pod in running for status in pod.status.container_statuses)
    return restarts >= max(pods.job.spec.backoff_limit, 1)


class JobStatusBuilder:
    """Builds the next status: new results are first listed as uncounted, and counted when their finalizer is gone."""

    def __init__(self, pods: JobPods, outcome: Condition | None) -> None:
        self._pods = pods
        self._job = pods.job
        self._outcome = outcome
        self._status: Object = {**pods.job.status, "conditions": list(pods.job.status.get("conditions") or ())}
        self.events: list[tuple[str, str, bool]] = []
        """Reason, message and whether it is a warning."""

    def build(self) -> Object:
        status, job, now = self._status, self._job, self._pods.now
        if "startTime" not in status and not job.spec.suspend:
            status["startTime"] = format_timestamp(now)
        if self._outcome is None and job.metadata.deletion_timestamp is None:
            self._set_suspended()
        self._count_results()
        status |= {"active": len(self._pods.active), "ready": self._pods.ready, "terminating": self._pods.terminating}
        if self._outcome is not None:
            self._set_outcome(self._outcome)
        for field in ("active", "succeeded", "failed", "completedIndexes", "conditions"):
            if not status.get(field):
                status.pop(field, None)
        return status

    @property
    def finalized(self) -> list[Pod]:
        """Return the pods whose finalizer may be removed, because the status that was built has their results."""
        uncounted = self._status["uncountedTerminatedPods"]
        listed = {*uncounted.get("succeeded", ()), *uncounted.get("failed", ())}
        return [pod for pod in self._pods.pods if is_tracked(pod) and self._is_recorded(pod, listed)]

    def _is_recorded(self, pod: Pod, listed: set[str]) -> bool:
        if pod.metadata.uid in listed or self._outcome is not None or self._job.metadata.deletion_timestamp is not None:
            return True
        if pod.status.phase == "Succeeded":
            return True  # its index is recorded, or is not one of the job
        return self._pods.is_failed(pod) and not self._must_be_replaced(pod)

    def _must_be_replaced(self, pod: Pod) -> bool:
        """Keep a failed pod, whose annotation counts the failures of its index, until the next pod of the index."""
        index = completion_index(pod)
        if self._job.spec.backoff_limit_per_index is None or index is None or not self._pods.is_valid(pod):
            return False
        is_replaced = any(completion_index(each) == index for each in self._pods.active)
        is_over = index in self._pods.failed_indexes or index in self._pods.succeeded_indexes
        return not (is_replaced or is_over)

    def _count_results(self) -> None:
        pods, status = self._pods, self._status
        tracked = {pod.metadata.uid for pod in pods.pods if is_tracked(pod)}
        lists = {}
        for field, listed in (("succeeded", pods.uncounted_succeeded), ("failed", pods.uncounted_failed)):
            status[field] = int(status.get(field) or 0) + sum(uid not in tracked for uid in listed)
            lists[field] = [uid for uid in listed if uid in tracked]
        lists["failed"] += [pod.metadata.uid for pod in self._newly_failed()]
        if self._job.is_indexed:
            status["completedIndexes"] = str(pods.succeeded_indexes)
            status["succeeded"] = pods.succeeded_indexes.total
            if self._job.spec.backoff_limit_per_index is not None:
                status["failedIndexes"] = str(pods.failed_indexes)
        else:
            lists["succeeded"] += [pod.metadata.uid for pod in pods.new_succeeded]
        status["uncountedTerminatedPods"] = {field: uids for field, uids in lists.items() if uids}

    def _newly_failed(self) -> list[Pod]:
        """Return the pods to count as failed now: also those that a failed job stops, but none that a success stops."""
        pods = self._pods
        match self._outcome and self._outcome["type"]:
            case None:
                return [pod for pod in pods.new_counted_failures if not self._must_be_replaced(pod)]
            case "SuccessCriteriaMet":
                return [pod for pod in pods.new_counted_failures if pod.status.phase == "Failed"]
            case _:
                stopped = [x for x in pods.unrecorded if x not in pods.new_failed and x not in pods.new_succeeded]
                return [*pods.new_counted_failures, *stopped]

    def _set_suspended(self) -> None:
        job, now = self._job, self._pods.now
        known = next((each for each in self._status["conditions"] if each["type"] == _SUSPENDED), None)
        is_suspended = known is not None and known["status"] == "True"
        if job.spec.suspend and not is_suspended:
            self._put_condition(make_condition(_SUSPENDED, "JobSuspended", "Job suspended", now))
            self._status.pop("startTime", None)
            self.events.append(("Suspended", "Job suspended", False))
        elif is_suspended and not job.spec.suspend:
            self._put_condition(make_condition(_SUSPENDED, "JobResumed", "Job resumed", now, "False"))
            self._status["startTime"] = format_timestamp(now)
            self.events.append(("Resumed", "Job resumed", False))

    def _set_outcome(self, outcome: Condition) -> None:
        """Add the outcome and, when all pods are gone and counted, the condition Complete or Failed."""
        if self._job.true_condition(outcome["type"]) is None:
            self._put_condition(outcome)
        if self._status["uncountedTerminatedPods"] or self._pods.terminating or self._pods.active:
            return
        reason, message, now = outcome["reason"], outcome["message"], self._pods.now
        if outcome["type"] == SUCCESS_CRITERIA_MET:
            self._put_condition(make_condition("Complete", reason, message, now))
            self._status["completionTime"] = format_timestamp(now)
            self.events.append(("Completed", "Job completed", False))
        else:
            self._put_condition(make_condition("Failed", reason, message, now))
            self.events.append((reason, message, True))

    def _put_condition(self, condition: Condition) -> None:
        others = [each for each in self._status["conditions"] if each["type"] != condition["type"]]
        self._status["conditions"] = [*others, condition]
