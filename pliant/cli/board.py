"""What a run knows of its jobs: where each group stands, who failed first, who cannot start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pliant.cli.members import group_of, members_of, title_of
from pliant.cli.progress import Progress, reported
from pliant.cli.room import lack_text, lacks_of, shortage
from pliant.cli.surroundings import natural
from pliant.controllers.observe import observe
from pliant.engine.roster import Place, Roster, Standing, call_the_roll
from pliant.engine.sizing import sized
from pliant.kube.objects import Node, Pod
from pliant.model import labels
from pliant.model.job import Group, Job, JobKey
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, Phase

NEVER_STARTS = (
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    "InvalidImageName",
    "ErrImageNeverPull",
)
"""Waits that nothing ends on a cluster where every object has been applied and images are not pulled."""
UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One group of one job, as a person wants to see it."""

    job: str
    group: str
    phase: str
    running: int
    done: int
    size: int
    restarts: int
    message: str
    progress: Progress | None = None

    @property
    def count(self) -> str:
        """How many run of those wanted, and how many are done: `1/2, 1 done`."""
        if self.done and self.done == self.size:
            return f"{self.done}/{self.size} done"
        return f"{self.running}/{self.size}" + (f", {self.done} done" if self.done else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A member that ended badly."""

    job: JobKey
    pod: ObservedPod

    @property
    def title(self) -> str:
        """What people call the member: `worker-1`."""
        return f"{self.pod.group}-{self.pod.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A member that does not start, and why."""

    job: JobKey
    title: str
    pod: str
    why: str
    is_hopeless: bool


class Board:
    """Collects what informers report about the jobs of one run."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, Job] = {}
        self._keys: dict[str, JobKey] = {}
        self._pods: dict[JobKey, dict[str, Pod]] = {}
        self._losses: dict[str, Loss] = {}
        self._mended: set[str] = set()
        """Pods that failed and were followed by others; a job forgets them when it shrinks."""
        self._heirs: dict[tuple[JobKey, str, int], int] = {}
        """The latest member at a rank that a master fills again and again."""
        self._nodes: Sequence[Node] = ()
        self._progress: dict[tuple[JobKey, str], Progress] = {}
        self._gone: set[JobKey] = set()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job of the run, in the order written."""
        return tuple(self._jobs.values())

    def put_nodes(self, nodes: Sequence[Node]) -> None:
        """Note which nodes there are; they do not change during a run."""
        self._nodes = nodes

    def shortages(self) -> Iterator[str]:
        """What jobs want more of than there is, though each of their members would fit."""
        for job in self._jobs.values():
            is_hopeless = any(lacks_of(group.template, self._nodes) for group in job.groups)
            if not is_hopeless and (lack := shortage(job.groups, self._nodes)):
                yield f"{job.key.name}: {lack}"

    def put_job(self, job: Job) -> None:
        """Note how a job is now."""
        self._jobs[job.key] = job
        self._keys[job.owner.uid] = job.key
        self._pods.setdefault(job.key, {})
        self._mended |= {
            uid for uid, loss in self._losses.items() if loss.job == job.key and _was_mended(job, loss.pod)
        }

    def drop_job(self, uid: str) -> JobKey | None:
        """Note that a job was deleted; which one it was, if it is one of this run and had not ended."""
        key = self._keys.get(uid)
        if key is None or self._is_over(self._jobs[key]):
            return None
        self._gone.add(key)
        return key

    def hear(self, pod: Pod, line: str) -> bool:
        """Note what a line reports about the progress of a group; False if it reports nothing."""
        job = self.owner_of(pod)
        if job is None:
            return False
        place = (job.key, group_of(job, pod))
        progress = reported(line, self._progress.get(place))
        if progress is not None:
            self._progress[place] = progress
        return progress is not None

    def progress(self, job: Job, group: Group) -> Progress | None:
        """How far a group said it has come."""
        return self._progress.get((job.key, labels.member_group(group.name)))

    def was_deleted(self, job: Job) -> bool:
        """Whether somebody deleted a job before it had ended."""
        return job.key in self._gone

    def put_pod(self, pod: Pod) -> None:
        """Note how a pod is now; pods of other owners are ignored."""
        job = self.owner_of(pod)
        if job is None:
            return
        self._pods[job.key][pod.metadata.name] = pod
        seen = observe(job, members_of(job, (pod,))).pods[0]
        if seen.rank >= 0:
            rank = (job.key, seen.group, seen.rank)
            self._heirs[rank] = max(seen.index, self._heirs.get(rank, 0))
        if seen.phase is PodPhase.FAILED and not seen.is_leaving:
            self._losses.setdefault(seen.uid, Loss(job=job.key, pod=seen))

    def drop_pod(self, pod: Pod) -> None:
        """Note that a pod is gone."""
        job = self.owner_of(pod)
        if job is not None:
            self._pods[job.key].pop(pod.metadata.name, None)

    def owner_of(self, pod: Pod) -> Job | None:
        """The job of this run that a pod belongs to."""
        for owner in pod.metadata.owner_references:
            if (key := self._keys.get(owner.uid)) is not None:
                return self._jobs[key]
        return None

    def pods(self, line: GroupLine) -> list[Pod]:
        """The pods of a group, by name."""
        group = labels.member_group(line.group)
        mine = ((self._jobs[key], pods) for key, pods in self._pods.items() if key.name == line.job)
        found = [pod for job, pods in mine for pod in pods.values() if group_of(job, pod) == group]
        return sorted(found, key=lambda pod: natural(pod.metadata.name))

    def speakers(self) -> Iterator[str]:
        """The names that will stand before log lines, one per member."""
        for job in self._jobs.values():
            for group in job.groups:
                for index in range(group.size):
                    name = labels.member_name(job, group.name, index)
                    yield self._short(job, name, f"{labels.member_group(group.name)}-{index}")

    def speaker(self, pod: Pod) -> str:
        """How a member is named before its log lines: short, but never ambiguous."""
        job = self.owner_of(pod)
        return self._short(job, pod.metadata.name, title_of(job, pod))

    def _short(self, job: Job | None, name: str, title: str) -> str:
        if job is not None and job.has_master:  # its pods have long names
            return title if len(self._jobs) == 1 else f"{job.key.name}-{title}"
        return name.removeprefix(f"{next(iter(self._jobs)).name}-") if len(self._jobs) == 1 else name

    def lines(self) -> list[GroupLine]:
        """One line per group, in the order written."""
        rosters = [(job, self._roster(job)) for job in self._jobs.values()]
        return [
            replace(_line(job, group, roster), progress=self.progress(job, group))
            for job, roster in rosters
            for group in job.groups
            # A master may have use for groups that nobody wrote down; until then they are no news.
            if group.size or roster.of(group) or not job.has_master
        ]

    def is_over(self) -> bool:
        """Whether every job has reached its end."""
        return all(self._is_over(job) for job in self._jobs.values())

    def _is_over(self, job: Job) -> bool:
        return job.key in self._gone or (job.state is not None and job.state.phase.is_final)

    def stuck(self) -> Iterator[Stuck]:
        """Members that do not start, of jobs that have not ended."""
        for job in self._jobs.values():
            if job.state is not None and job.state.phase.is_final:
                continue
            for place in self._roster(job).places:
                if place.pod is not None and place.pod.trouble and not place.standing.is_up:
                    yield self._stuck(job, place, place.pod.trouble)

    def first_cause(self, job: Job) -> Loss | None:
        """The failure that began the job's end: the earliest that was not mended by a restart."""
        losses = [loss for loss in self._losses.values() if loss.job == job.key]
        return next(iter(self.unmended(job)), losses[-1] if losses else None)

    def unmended(self, job: Job) -> list[Loss]:
        """Members that ended badly and were not restarted, the earliest first."""
        losses = (loss for loss in self._losses.values() if loss.job == job.key and not self._was_replaced(loss))
        return [loss for loss in losses if loss.pod.uid not in self._mended and not _was_mended(job, loss.pod)]

    def _was_replaced(self, loss: Loss) -> bool:
        """Whether another has taken over its rank since, by the word of the job's master."""
        pod = loss.pod
        return self._heirs.get((loss.job, pod.group, pod.rank), pod.index) > pod.index

    def _stuck(self, job: Job, place: Place, why: str) -> Stuck:
        is_hopeless = why.startswith(NEVER_STARTS)
        if why.startswith(UNSCHEDULABLE) and (lacks := lacks_of(place.rank.group.template, self._nodes)):
            why, is_hopeless = lack_text(lacks), True
        return Stuck(job=job.key, title=place.title, pod=place.name, why=why, is_hopeless=is_hopeless)

    def _roster(self, job: Job) -> Roster:
        state = job.state or _unborn(job)
        seen = observe(job, members_of(job, self._pods[job.key].values()))
        return call_the_roll(sized(job, state), seen, state, job.created_at)


def restarts_of(job: Job, group: Group) -> int:
    """How often members of a group were restarted."""
    return job.state.group(group.name).spent if job.state else 0


def _unborn(job: Job) -> EngineState:
    return EngineState(phase=Phase.PENDING, started_at=job.created_at)


def _line(job: Job, group: Group, roster: Roster) -> GroupLine:
    state = job.state or _unborn(job)
    places = roster.of(group)
    running = sum(place.standing is Standing.RUNNING for place in places)
    done = sum(place.standing is Standing.SUCCEEDED for place in places)
    phase = "Succeeded" if places and done == len(places) and not state.phase.is_final else str(state.phase)
    troubles = [f"{place.title}: {place.pod.trouble}" for place in places if place.pod and place.pod.trouble]
    return GroupLine(
        job=job.key.name,
        group=group.name,
        phase=phase,
        running=running,
        done=done,
        size=group.size,
        restarts=restarts_of(job, group),
        message=troubles[0] if troubles else state.message,
    )


def _was_mended(job: Job, pod: ObservedPod) -> bool:
    """Whether a later attempt was decided for the place where this pod failed."""
    if job.state is None:
        return False
    group = next((group for group in job.groups if labels.member_group(group.name) == pod.group), None)
    return group is not None and pod.attempt < job.state.group(group.name).wanted_attempt(pod.index)
