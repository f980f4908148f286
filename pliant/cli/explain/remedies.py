"""What to try next, for each way in which a job can stand still or end badly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pliant.cli.cluster.job_context import ClusterContext
from pliant.cli.cluster.job_lookup import JobObject, qualified_kind
from pliant.engine.pods.replicas import Replica
from pliant.model.job import CleanPodPolicy, Job, RestartPolicy
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.model.observed import PodPhase
from pliant.model.state import JobPhase

UNSCHEDULABLE_REASON = "Unschedulable"
_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_KEEP_PODS_VALUE = {"batch.paddlepaddle.org": "Never"}
"""What a kind calls it to keep pods after the end, where that is not `None`; by group."""
_MISSING_OBJECT_REASONS = ("CreateContainerConfigError", "FailedMount")


def suggest_remedies(job_object: JobObject, replicas: Sequence[Replica], context: ClusterContext) -> Iterator[str]:
    """Advice, the most likely to help first."""
    job, name = job_object.job, job_object.key.name
    if job is None:
        field = job_object.parse_error.partition(":")[0]
        yield f"mend {field}: kubectl edit {qualified_kind(job_object.frontend, job_object.frontend.plural)} {name}"
        return
    if job.managed_by not in ("", MANAGED_BY_VALUE):
        yield f"ask {job.managed_by}, or take {job_object.frontend.run_policy_path}.managedBy away (in a new job)"
        return
    if job.state is None:
        yield "start an operator: `pliant up` brings one along, `pliant install` puts one on a cluster"
        yield "`pliant doctor` tells whether it has what it needs"
        return
    yield from _remedies_for_phase(job, job.state.phase, name)
    yield from _remedies_for_pod_problems(job, replicas)
    yield from _remedies_for_failed_pods(job, context)


def _remedies_for_phase(job: Job, phase: JobPhase, name: str) -> Iterator[str]:
    if phase is JobPhase.SUSPENDED:
        yield f"let it go on: pliant resume {name}"
    if phase is JobPhase.TIMEOUT:
        yield "raise spec.timeLimit or spec.startLimit, and submit it again"
    if phase is JobPhase.NODE_FAIL:
        yield "let it survive a lost node: restartPolicy OnNodeFail or Always, and a restartLimit above 0"
    if phase is JobPhase.PREEMPTED:
        yield "submit it again when there is room, or give it a higher priority"
    if phase is JobPhase.RESTARTING:
        yield f"follow it: pliant logs {name} -f"


def _remedies_for_pod_problems(job: Job, replicas: Sequence[Replica]) -> Iterator[str]:
    if job.state is not None and job.state.phase.is_final:
        return
    for place in replicas:
        trouble = place.pod.problem if place.pod and not place.state.has_started else ""
        where = f"the template of {place.rank.group.name}"
        if trouble.startswith(UNSCHEDULABLE_REASON):
            yield f"ask for less in {where} (resources.requests), or make room: pliant top, kubectl describe nodes"
            if place.rank.group.is_elastic and place.rank.group.size > place.rank.group.min_size:
                yield f"let it go on smaller: pliant scale {job.key.name} {place.rank.group.min_size}"
        elif trouble.startswith(_IMAGE_REASONS):
            yield f"check the image of {where}: its name, and whether the node may pull it"
        elif trouble.startswith(_MISSING_OBJECT_REASONS) or "not found" in trouble:
            yield f"create what is missing (ConfigMap, Secret, volume), or mend its name in {where}"
        elif trouble.startswith("CrashLoopBackOff"):
            yield f"see why it ended: pliant logs {job.key.name} --previous"
        elif trouble.startswith("CreateContainerError"):
            yield f"name a program in {where}: command: [python3, train.py]"


def _remedies_for_failed_pods(job: Job, context: ClusterContext) -> Iterator[str]:
    state, name = job.state, job.key.name
    if state is None:
        return
    failed = [pod for pod in context.observed_pods(job) if pod.phase is PodPhase.FAILED]
    codes = {pod.exit.code for pod in failed if pod.exit}
    if 137 in codes or any(pod.exit and pod.exit.reason == "OOMKilled" for pod in failed):
        yield "if it was memory: a smaller batch, or more memory in resources.limits"
    if state.phase is JobPhase.FAILED:
        yield from _remedies_for_failed_job(job, bool(failed))
    elif failed and not state.phase.is_final:
        yield f"read all of it: pliant logs {name}"


def _remedies_for_failed_job(job: Job, has_pods: bool) -> Iterator[str]:
    name, state = job.key.name, job.state
    if has_pods:
        yield f"read all of it: pliant logs {name}"
    elif job.clean_pod_policy is CleanPodPolicy.ALL:
        api_group = job.owner.api_version.partition("/")[0]
        yield f"keep pods and logs next time: cleanPodPolicy: {_KEEP_PODS_VALUE.get(api_group, 'None')}"
    for group in job.groups:
        memory = state.group(group.name) if state else None
        if group.restart_rule.policy is None:
            yield f"let {group.name} restart: restartPolicy: OnFailure and a restartLimit"
        elif group.restart_rule.policy is RestartPolicy.EXIT_CODE:
            yield "list the exit code in spec.restartingExitCode, if a restart could help"
        elif memory and group.restart_rule.limit is not None and memory.charged_restarts >= group.restart_rule.limit:
            yield f"if the cause is mended, raise restartLimit of {group.name} and submit it again"
    if state is not None and job.restart_limit is not None and state.restart_count >= job.restart_limit:
        yield "if the cause is mended, raise spec.runPolicy.backoffLimit and submit it again"
