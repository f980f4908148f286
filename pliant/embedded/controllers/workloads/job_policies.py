"""The pod failure policy and the success policy of a Job; pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pliant.embedded.controllers.workloads.job_views import Job
from pliant.embedded.controllers.workloads.views import Object
from pliant.embedded.index_ranges import IndexRanges
from pliant.kube.objects import ContainerStatus, Pod


class FailureMatch(NamedTuple):
    action: str = "Count"
    message: str = ""
    """Why the job fails, for the action FailJob."""

    @property
    def is_counted(self) -> bool:
        return self.action != "Ignore"


_COUNT = FailureMatch()


def match_failure_policy(job: Job, pod: Pod) -> FailureMatch:
    """Return the action of the first rule that matches a failed pod; without a match, the failure is counted."""
    for index, rule in enumerate((job.spec.pod_failure_policy or {}).get("rules") or ()):
        action, where = rule["action"], f"{pod.metadata.namespace}/{pod.metadata.name}"
        if (requirement := rule.get("onExitCodes")) is not None:
            container = _find_matching_container(pod, requirement)
            if container is not None and container.state.terminated is not None:
                code = container.state.terminated.exit_code
                subject = f"Container {container.name} for pod {where} failed with exit code {code}"
                return FailureMatch(action, f"{subject} matching {action} rule at index {index}")
            continue
        for pattern in rule.get("onPodConditions") or ():
            if any(each.type == pattern["type"] and each.status == pattern["status"] for each in pod.status.conditions):
                message = f"Pod {where} has condition {pattern['type']} matching {action} rule at index {index}"
                return FailureMatch(action, message)
    return _COUNT


def _find_matching_container(pod: Pod, requirement: Object) -> ContainerStatus | None:
    name, is_in = requirement.get("containerName"), requirement["operator"] == "In"
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        terminated = status.state.terminated
        if terminated is None or terminated.exit_code == 0 or name not in (None, status.name):
            continue
        if (terminated.exit_code in requirement["values"]) is is_in:
            return status
    return None


def match_success_policy(job: Job, succeeded: IndexRanges) -> str:
    """Return which rule the succeeded indexes meet, as a message; empty if they meet none."""
    for number, rule in enumerate((job.spec.success_policy or {}).get("rules") or ()):
        achieved, needed = succeeded.total, rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            required = IndexRanges.parse(rule["succeededIndexes"], job.spec.completions or 0)
            achieved = succeeded.count_common(required)
            needed = required.total if needed is None else needed
        if achieved and needed is not None and achieved >= needed:
            return f"Matched rules at index {number}"
    return ""
