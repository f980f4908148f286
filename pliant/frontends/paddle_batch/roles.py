"""The roles of a PaddleJob as groups: how many there are, how they change, when they restart, whose end counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle_batch.network import on_the_host, ports_of
from pliant.frontends.paddle_batch.types import WORKER, Intranet, PaddleJobSpec, RoleSpec
from pliant.frontends.templates import fingerprint, template_facts
from pliant.model.job import EndPolicy, Group, Resize, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import Requester

MEETING = "elastic_server"
"""What the framework calls an etcd."""
SERVER = "pliant/elastic-server"
"""The annotation that says where one is, `etcd.default:2379`."""
VARIABLE = "PADDLE_ELASTIC_SERVER"
"""The variable of a template that says it, too."""
QUEUE = "volcano.sh/queue-name"
HELD = (
    "trainers were told their number at the start (PADDLE_TRAINERS_NUM);"
    " set spec.elastic: 1 to let them start again at another size"
)
_RESTARTING = ("Always", "OnFailure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all roles of a job have in common."""

    spec: PaddleJobSpec
    meeting: str
    """Where an etcd is, by which Paddle's launcher lets workers come and go; empty if there is none."""
    resize: Resize
    ports: Mapping[str, int]
    """The first port of each role."""
    is_resting: bool
    """Whether there are no members at present who could have been told anything."""

    @classmethod
    def of(
        cls, spec: PaddleJobSpec, annotations: Mapping[str, str], ports: Mapping[str, int], *, is_resting: bool
    ) -> Plan:
        """The plan of a spec; raises InvalidSpec for templates that are none."""
        meeting = annotations.get(SERVER, "").strip() or _server_in(spec.worker)
        return cls(spec=spec, meeting=meeting, resize=_way(spec, meeting), ports=ports, is_resting=is_resting)

    @property
    def is_elastic(self) -> bool:
        """Whether sizes may change."""
        return self.resize is not Resize.HOLD


def groups_of(plan: Plan) -> tuple[Group, ...]:
    """The groups in the order of roles."""
    return tuple(_group(name, role, plan) for name, role in plan.spec.roles.items())


def _group(name: str, role: RoleSpec, plan: Plan) -> Group:
    facts = template_facts(role.template, f"spec.{name}.template", "")
    size = 1 if role.replicas is None else role.replicas
    is_elastic = plan.is_elastic and name == WORKER
    least, most = _bounds(role, size) if is_elastic else (0, None)
    is_held = plan.resize is Resize.HOLD and not plan.is_resting
    return Group(
        name=name,
        size=size,
        least=least,
        most=most,
        is_elastic=is_elastic,
        is_automatic=is_elastic and bool(role.requests) and most is not None and least < most,
        resize=Resize.JOIN if plan.is_resting else plan.resize,
        hold=HELD if is_held else "",
        requests={Requester.SPEC: size},
        template=_dressed(name, role.template, plan),
        fingerprint=fingerprint(role.template),
        ports=ports_of(plan.ports[name], facts.ports, role.template["spec"]["containers"][0]["name"]),
        complete_policy=EndPolicy.ALL if name == WORKER or plan.spec.worker is None else EndPolicy.NONE,
        restart=_restart(name, role, plan),
    )


def warnings_of(plan: Plan) -> tuple[str, ...]:
    """What is written and will not be done, though the job can run."""
    spec, policy = plan.spec, plan.spec.scheduling_policy
    said = []
    if policy and (policy.min_available or policy.min_resources):
        said.append("spec.schedulingPolicy: minAvailable and minResources are not read, as no PodGroup is made")
    for name, role in spec.roles.items():
        if name != WORKER and (role.requests or role.limits):
            said.append(f"spec.{name}: requests and limits are not read, as only workers are elastic")
    if plan.meeting and plan.resize is Resize.RESTART:
        lack = (
            "spec.worker.limits is not set" if [*spec.roles] == [WORKER] else "there are other roles than workers"
        )
        said.append(f"{lack}: workers do not come and go by the etcd at {plan.meeting}, all start again")
    return tuple(said)


def _way(spec: PaddleJobSpec, meeting: str) -> Resize:
    """How members learn of another size.

    Paddle's launcher lets them come and go if it has an etcd and knows how many there may be; without, all start
    again. Those of a job that says nothing of it cannot.
    """
    has_limits = spec.worker is not None and bool(spec.worker.limits)
    if spec.elastic is None and not has_limits:
        return Resize.HOLD
    return Resize.JOIN if meeting and has_limits and [*spec.roles] == [WORKER] else Resize.RESTART


def _bounds(role: RoleSpec, size: int) -> tuple[int, int | None]:
    """Between which sizes workers may move; 0 says as little as nothing, and nobody trains with no worker."""
    least = role.requests or min(size, 1)
    most = role.limits or None
    if most is not None and least > most:
        raise InvalidSpec("spec.worker.requests", f"must be at most limits ({most}), got {least}")
    return least, most


def _restart(name: str, role: RoleSpec, plan: Plan) -> RestartRule:
    """What the template says; else elastic members come back, and so do workers that are known by services.

    Workers without servers wait for each other at every step: one that comes back alone would find nobody who
    listens, unless the launcher has them meet again.
    """
    written = role.template["spec"].get("restartPolicy")
    is_known = name == WORKER and plan.spec.intranet is Intranet.SERVICE
    restarts = plan.is_elastic or written in _RESTARTING or (not written and is_known)
    is_alone = plan.spec.ps is not None or plan.resize is Resize.JOIN
    return RestartRule(
        policy=RestartPolicy.ALWAYS if restarts else RestartPolicy.NEVER,
        scope=RestartScope.POD if is_alone else RestartScope.ALL,
    )


def _dressed(name: str, template: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """A template, known to be sound, with what the kind adds."""
    spec = dict(template["spec"])
    if plan.spec.intranet is Intranet.HOST:
        spec = on_the_host(spec, plan.ports[name])
    metadata = template.get("metadata") or {}
    policy = plan.spec.scheduling_policy
    ours = {"paddle-resource": name, **({QUEUE: policy.queue} if policy and policy.queue else {})}
    described = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **ours}}
    return {**template, "metadata": described, "spec": spec}


def _server_in(worker: RoleSpec | None) -> str:
    """The etcd that the workers' template names."""
    if worker is None:
        return ""
    template_facts(worker.template, "spec.worker.template", "")  # what is no template is refused by its place
    variables = [each for one in worker.template["spec"]["containers"] for each in one.get("env") or ()]
    named = [each.get("value") for each in variables if each.get("name") == VARIABLE]
    return next((value.strip() for value in named if isinstance(value, str)), "")
