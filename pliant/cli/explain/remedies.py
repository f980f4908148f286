"""Suggests what to try for each way in which a job can wait or fail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pliant.cli.cluster.job_context import JobContext
from pliant.cli.cluster.job_lookup import JobObject, unambiguous_kind_name
from pliant.cli.explain.capacity import UNSCHEDULABLE_REASON
from pliant.cli.explain.failure_hints import LocalPrograms, suggest_fix
from pliant.engine.pods.replicas import Replica
from pliant.model.job import CleanPodPolicy, Job, RestartPolicy
from pliant.model.labels import MANAGED_BY_VALUE, WORKSPACE_ANNOTATION
from pliant.model.observed import PodExit, PodPhase
from pliant.model.state import EngineState, JobPhase, RestartCause

_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
# what keeps the pods that have finished, by API group, where it is not `cleanPodPolicy: Running`
_KEEP_PODS_ADVICE = {
    "batch.paddlepaddle.org": "cleanPodPolicy: Never",
    "elastic.iml.github.io": "the annotation pliant/clean: running",
}
_MISSING_OBJECT_REASONS = ("CreateContainerConfigError", "FailedMount")
_MISSING_OBJECT_PATTERN = re.compile(r'(configmap|secret|persistentvolumeclaim) "[^"]+" not found')


def keep_pods_advice(job: Job) -> str:
    """Return what keeps the pods of a job that have finished, and so their logs: `cleanPodPolicy: Running`."""
    return _KEEP_PODS_ADVICE.get(job.owner.api_version.partition("/")[0], "cleanPodPolicy: Running")


def suggest_remedies(job_object: JobObject, replicas: Sequence[Replica], context: JobContext) -> Iterator[str]:
    """Yield suggestions, the most likely to help first."""
    job, state, name = job_object.job, job_object.state, job_object.key.name
    if job is None:
        field = job_object.parse_error.partition(":")[0]
        kind = unambiguous_kind_name(job_object.frontend, job_object.frontend.plural)
        yield f"fix {field}: kubectl edit {kind} {name}"
        return
    if job.managed_by not in ("", MANAGED_BY_VALUE):
        yield f"check {job.managed_by}, or submit the job without {job_object.frontend.run_policy_path}.managedBy"
        return
    if job_object.rejection:
        field = job_object.rejection.partition(":")[0]
        kind = unambiguous_kind_name(job_object.frontend, job_object.frontend.plural)
        yield f"undo the edit of {field}: kubectl edit {kind} {name}"
    if state is None:
        yield "start an operator: `pliant up` starts one, `pliant install` installs one on a cluster"
        yield "check its requirements: pliant doctor"
        return
    local = LocalPrograms.of_nodes(context.nodes.values())
    yield from _remedies_for_causes(state, local.for_job(job) if local is not None else None)
    yield from _remedies_for_phase(state.phase, name)
    if not state.phase.is_final:
        yield from _remedies_for_pod_problems(name, replicas)
    yield from _remedies_for_failed_pods(job, state, context, job_object.frontend.run_policy_path)


def _remedies_for_causes(state: EngineState, local: LocalPrograms | None) -> Iterator[str]:
    """Yield fixes for programs that cannot start, and for the failure that led to the end or to the latest restart."""
    for failure in (group.start_failure for group in state.groups.values()):
        if failure is not None and (fix := suggest_fix(None, [failure.cause], local)):
            yield fix
    if (cause := state.root_cause) is not None and cause.cause is RestartCause.APP:
        container_exit = PodExit(code=cause.exit_code, reason=cause.reason, message=cause.message)
        if fix := suggest_fix(container_exit, (), local):
            yield fix


def _remedies_for_phase(phase: JobPhase, name: str) -> Iterator[str]:
    if phase is JobPhase.SUSPENDED:
        yield f"resume it: pliant resume {name}"
    if phase is JobPhase.TIMEOUT:
        yield "increase spec.timeLimit or spec.startLimit, and submit it again"
    if phase is JobPhase.NODE_FAIL:
        yield "restart it after node failures: restartPolicy OnNodeFail or Always, with a restartLimit above 0"
    if phase is JobPhase.PREEMPTED:
        yield "submit it again later, or with a higher priority"
    if phase is JobPhase.RESTARTING:
        yield f"follow its logs: pliant logs {name} -f"


def _remedies_for_pod_problems(name: str, replicas: Sequence[Replica]) -> Iterator[str]:
    for replica in replicas:
        problem = replica.pod.start_problem if replica.pod and not replica.state.has_started else ""
        group = replica.rank.group
        template = f"the template of {group.name}"
        if WORKSPACE_ANNOTATION in problem:
            continue  # the problem contains the fix
        if problem.startswith(_MISSING_OBJECT_REASONS) or _MISSING_OBJECT_PATTERN.search(problem):
            yield f"create the missing object (ConfigMap, Secret, volume), or fix its name in {template}"
        elif problem.startswith(UNSCHEDULABLE_REASON):
            yield f"reduce resources.requests in {template}, or free capacity: pliant top, kubectl describe nodes"
            if group.is_elastic and group.size > group.min_size:
                yield f"run it with fewer replicas: pliant scale {name} {group.min_size}"
        elif problem.startswith(_IMAGE_REASONS):
            yield f"check the image of {template}: its name and the pull credentials"
        elif problem.startswith("CrashLoopBackOff"):
            yield f"check why it exited: pliant logs {name} --previous"
        elif problem.startswith("CreateContainerError"):
            yield f"set the command in {template}: command: [python3, train.py]"


def _remedies_for_failed_pods(job: Job, state: EngineState, context: JobContext, run_policy_path: str) -> Iterator[str]:
    failed = [pod for pod in context.observed_pods(job) if pod.phase is PodPhase.FAILED]
    has_logs = bool(failed) or (context.has_retained_logs and state.root_cause is not None)
    codes = {pod.exit.code for pod in failed if pod.exit}
    if 137 in codes or any(pod.exit and pod.exit.reason == "OOMKilled" for pod in failed):
        yield "if it ran out of memory: use a smaller batch, or increase the memory in resources.limits"
    if state.phase is JobPhase.FAILED:
        yield from _remedies_for_failed_job(job, state, has_logs, run_policy_path)
    elif has_logs and not state.phase.is_final:
        yield f"read the complete logs: pliant logs {job.key.name}"


def _remedies_for_failed_job(job: Job, state: EngineState, has_logs: bool, run_policy_path: str) -> Iterator[str]:
    if has_logs:
        yield f"read the complete logs: pliant logs {job.key.name}"
    elif job.clean_pod_policy is CleanPodPolicy.ALL:
        yield f"keep pods and logs: {keep_pods_advice(job)}"
    for group in job.groups:
        used, limit = state.group(group.name).restarts_without_disruptions, group.restart_rule.limit
        if group.restart_rule.policy is None:
            yield f"restart {group.name} after failures: restartPolicy: OnFailure with a restartLimit"
        elif group.restart_rule.policy is RestartPolicy.EXIT_CODE:
            yield "add the exit code to spec.restartingExitCode if a restart can help"
        elif limit is not None and used >= limit:
            yield f"after fixing the cause, increase restartLimit of {group.name} and submit it again"
    if job.restart_limit is not None and state.restart_count >= job.restart_limit:
        yield f"after fixing the cause, increase {run_policy_path}.backoffLimit and submit it again"
