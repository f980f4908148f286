"""What to try next, for each way in which a job can stand still or end badly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pliant.cli.jobs import Found, known_as
from pliant.cli.surroundings import Surroundings
from pliant.engine.roster import Place
from pliant.model.job import CleanPolicy, Job, RestartPolicy
from pliant.model.labels import MANAGER
from pliant.model.observed import PodPhase
from pliant.model.state import Phase

UNSCHEDULABLE = "Unschedulable"
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_KEEPING = {"batch.paddlepaddle.org": "Never"}
"""What a kind calls it to keep pods after the end, where that is not `None`; by group."""
_MISSING = ("CreateContainerConfigError", "FailedMount")


def remedies(one: Found, places: Sequence[Place], around: Surroundings) -> Iterator[str]:
    """Advice, the most likely to help first."""
    job, name = one.job, one.key.name
    if job is None:
        field = one.problem.partition(":")[0]
        yield f"mend {field}: kubectl edit {known_as(one.frontend, one.frontend.plural)} {name}"
        return
    if job.managed_by not in ("", MANAGER):
        yield f"ask {job.managed_by}, or take {one.frontend.policy_field}.managedBy away (in a new job)"
        return
    if job.state is None:
        yield "start an operator: `pliant up` brings one along, `pliant install` puts one on a cluster"
        yield "`pliant doctor` tells whether it has what it needs"
        return
    yield from _by_phase(job, job.state.phase, name)
    yield from _by_trouble(job, places)
    yield from _by_end(job, around)


def _by_phase(job: Job, phase: Phase, name: str) -> Iterator[str]:
    if phase is Phase.SUSPENDED:
        yield f"let it go on: pliant resume {name}"
    if phase is Phase.TIMEOUT:
        yield "raise spec.timeLimit or spec.startLimit, and submit it again"
    if phase is Phase.NODE_FAIL:
        yield "let it survive a lost node: restartPolicy OnNodeFail or Always, and a restartLimit above 0"
    if phase is Phase.PREEMPTED:
        yield "submit it again when there is room, or give it a higher priority"
    if phase is Phase.RESTARTING:
        yield f"follow it: pliant logs {name} -f"


def _by_trouble(job: Job, places: Sequence[Place]) -> Iterator[str]:
    if job.state is not None and job.state.phase.is_final:
        return
    for place in places:
        trouble = place.pod.trouble if place.pod and not place.standing.is_up else ""
        where = f"the template of {place.rank.group.name}"
        if trouble.startswith(UNSCHEDULABLE):
            yield f"ask for less in {where} (resources.requests), or make room: pliant top, kubectl describe nodes"
            if place.rank.group.is_elastic and place.rank.group.size > place.rank.group.least:
                yield f"let it go on smaller: pliant scale {job.key.name} {place.rank.group.least}"
        elif trouble.startswith(_IMAGE):
            yield f"check the image of {where}: its name, and whether the node may pull it"
        elif trouble.startswith(_MISSING) or "not found" in trouble:
            yield f"create what is missing (ConfigMap, Secret, volume), or mend its name in {where}"
        elif trouble.startswith("CrashLoopBackOff"):
            yield f"see why it ended: pliant logs {job.key.name} --previous"
        elif trouble.startswith("CreateContainerError"):
            yield f"name a program in {where}: command: [python3, train.py]"


def _by_end(job: Job, around: Surroundings) -> Iterator[str]:
    state, name = job.state, job.key.name
    if state is None:
        return
    failed = [pod for pod in around.observed(job) if pod.phase is PodPhase.FAILED]
    codes = {pod.exit.code for pod in failed if pod.exit}
    if 137 in codes or any(pod.exit and pod.exit.reason == "OOMKilled" for pod in failed):
        yield "if it was memory: a smaller batch, or more memory in resources.limits"
    if state.phase is Phase.FAILED:
        yield from _after_failure(job, bool(failed))
    elif failed and not state.phase.is_final:
        yield f"read all of it: pliant logs {name}"


def _after_failure(job: Job, has_pods: bool) -> Iterator[str]:
    name, state = job.key.name, job.state
    if has_pods:
        yield f"read all of it: pliant logs {name}"
    elif job.clean is CleanPolicy.ALL:
        api_group = job.owner.api_version.partition("/")[0]
        yield f"keep pods and logs next time: cleanPodPolicy: {_KEEPING.get(api_group, 'None')}"
    for group in job.groups:
        memory = state.group(group.name) if state else None
        if group.restart.policy is None:
            yield f"let {group.name} restart: restartPolicy: OnFailure and a restartLimit"
        elif group.restart.policy is RestartPolicy.EXIT_CODE:
            yield "list the exit code in spec.restartingExitCode, if a restart could help"
        elif memory and group.restart.limit is not None and memory.spent >= group.restart.limit:
            yield f"if the cause is mended, raise restartLimit of {group.name} and submit it again"
    if state is not None and job.restart_limit is not None and state.restarts >= job.restart_limit:
        yield "if the cause is mended, raise spec.runPolicy.backoffLimit and submit it again"
