"""The roles of a PaddleJob as groups: how many there are, how they change, when they restart, whose end counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle_batch.ports import replica_ports, with_host_network
from pliant.frontends.paddle_batch.types import WORKER, BatchPaddleJobSpec, BatchPaddleRoleSpec, Intranet
from pliant.frontends.spec.pod_templates import hash_template, inspect_pod_template
from pliant.model.job import EndPolicy, ReplicaGroup, ResizeMode, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import SizeRequester

ELASTIC_SERVER_OPTION = "elastic_server"
"""What the framework calls an etcd."""
ELASTIC_SERVER_ANNOTATION = "pliant/elastic-server"
"""The annotation that says where one is, `etcd.default:2379`."""
ELASTIC_SERVER_VARIABLE = "PADDLE_ELASTIC_SERVER"
"""The variable of a template that says it, too."""
QUEUE_ANNOTATION = "volcano.sh/queue-name"
FIXED_SIZE_REASON = (
    "trainers were told their number at the start (PADDLE_TRAINERS_NUM);"
    " set spec.elastic: 1 to let them start again at another size"
)
_RESTARTING_POLICIES = ("Always", "OnFailure")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPaddleJobContext:
    """What all roles of a job have in common."""

    spec: BatchPaddleJobSpec
    elastic_server: str
    """Where an etcd is, by which Paddle's launcher lets workers come and go; empty if there is none."""
    resize_mode: ResizeMode
    first_ports: Mapping[str, int]
    """The first port of each role."""
    is_suspended: bool
    """Whether there are no members at present who could have been told anything."""

    @classmethod
    def from_spec(
        cls,
        spec: BatchPaddleJobSpec,
        annotations: Mapping[str, str],
        first_ports: Mapping[str, int],
        *,
        is_suspended: bool,
    ) -> BatchPaddleJobContext:
        """The plan of a spec; raises InvalidSpec for templates that are none."""
        meeting = annotations.get(ELASTIC_SERVER_ANNOTATION, "").strip() or _template_elastic_server(spec.worker)
        return cls(
            spec=spec,
            elastic_server=meeting,
            resize_mode=_resize_mode(spec, meeting),
            first_ports=first_ports,
            is_suspended=is_suspended,
        )

    @property
    def is_elastic(self) -> bool:
        """Whether sizes may change."""
        return self.resize_mode is not ResizeMode.FIXED


def build_groups(context: BatchPaddleJobContext) -> tuple[ReplicaGroup, ...]:
    """The groups in the order of roles."""
    return tuple(_build_group(name, role, context) for name, role in context.spec.roles.items())


def _build_group(role_name: str, role: BatchPaddleRoleSpec, context: BatchPaddleJobContext) -> ReplicaGroup:
    facts = inspect_pod_template(role.template, f"spec.{role_name}.template", "")
    size = 1 if role.replicas is None else role.replicas
    is_elastic = context.is_elastic and role_name == WORKER
    least, most = _worker_bounds(role, size) if is_elastic else (0, None)
    is_held = context.resize_mode is ResizeMode.FIXED and not context.is_suspended
    return ReplicaGroup(
        name=role_name,
        size=size,
        min_size=least,
        max_size=most,
        is_elastic=is_elastic,
        is_autoscaled=is_elastic and bool(role.requests) and most is not None and least < most,
        resize_mode=ResizeMode.JOIN if context.is_suspended else context.resize_mode,
        fixed_size_reason=FIXED_SIZE_REASON if is_held else "",
        requested_sizes={SizeRequester.SPEC: size},
        template=_build_pod_template(role_name, role.template, context),
        template_hash=hash_template(role.template),
        ports=replica_ports(
            context.first_ports[role_name], facts.ports, role.template["spec"]["containers"][0]["name"]
        ),
        complete_policy=EndPolicy.ALL if role_name == WORKER or context.spec.worker is None else EndPolicy.NONE,
        restart_rule=_restart_rule(role_name, role, context),
    )


def spec_warnings(context: BatchPaddleJobContext) -> tuple[str, ...]:
    """What is written and will not be done, though the job can run."""
    spec, policy = context.spec, context.spec.scheduling_policy
    said = []
    if policy and (policy.min_available or policy.min_resources):
        said.append("spec.schedulingPolicy: minAvailable and minResources are not read, as no PodGroup is made")
    for name, role in spec.roles.items():
        if name != WORKER and (role.requests or role.limits):
            said.append(f"spec.{name}: requests and limits are not read, as only workers are elastic")
    if context.elastic_server and context.resize_mode is ResizeMode.RESTART:
        lack = "spec.worker.limits is not set" if [*spec.roles] == [WORKER] else "there are other roles than workers"
        said.append(f"{lack}: workers do not come and go by the etcd at {context.elastic_server}, all start again")
    return tuple(said)


def _resize_mode(spec: BatchPaddleJobSpec, elastic_server: str) -> ResizeMode:
    """How members learn of another size.

    Paddle's launcher lets them come and go if it has an etcd and knows how many there may be; without, all start
    again. Those of a job that says nothing of it cannot.
    """
    has_limits = spec.worker is not None and bool(spec.worker.limits)
    if spec.elastic is None and not has_limits:
        return ResizeMode.FIXED
    return ResizeMode.JOIN if elastic_server and has_limits and [*spec.roles] == [WORKER] else ResizeMode.RESTART


def _worker_bounds(role: BatchPaddleRoleSpec, size: int) -> tuple[int, int | None]:
    """Between which sizes workers may move; 0 says as little as nothing, and nobody trains with no worker."""
    least = role.requests or min(size, 1)
    most = role.limits or None
    if most is not None and least > most:
        raise InvalidSpec("spec.worker.requests", f"must be at most limits ({most}), got {least}")
    return least, most


def _restart_rule(role_name: str, role: BatchPaddleRoleSpec, context: BatchPaddleJobContext) -> RestartRule:
    """What the template says; else elastic members come back, and so do workers that are known by services.

    Workers without servers wait for each other at every step: one that comes back alone would find nobody who
    listens, unless the launcher has them meet again.
    """
    written = role.template["spec"].get("restartPolicy")
    is_known = role_name == WORKER and context.spec.intranet is Intranet.SERVICE
    restarts = context.is_elastic or written in _RESTARTING_POLICIES or (not written and is_known)
    is_alone = context.spec.ps is not None or context.resize_mode is ResizeMode.JOIN
    return RestartRule(
        policy=RestartPolicy.ALWAYS if restarts else RestartPolicy.NEVER,
        scope=RestartScope.POD if is_alone else RestartScope.ALL,
    )


def _build_pod_template(role_name: str, template: Mapping[str, Any], context: BatchPaddleJobContext) -> dict[str, Any]:
    """A template, known to be sound, with what the kind adds."""
    spec = dict(template["spec"])
    if context.spec.intranet is Intranet.HOST:
        spec = with_host_network(spec, context.first_ports[role_name])
    metadata = template.get("metadata") or {}
    policy = context.spec.scheduling_policy
    ours = {"paddle-resource": role_name, **({QUEUE_ANNOTATION: policy.queue} if policy and policy.queue else {})}
    described = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **ours}}
    return {**template, "metadata": described, "spec": spec}


def _template_elastic_server(worker: BatchPaddleRoleSpec | None) -> str:
    """The etcd that the workers' template names."""
    if worker is None:
        return ""
    inspect_pod_template(worker.template, "spec.worker.template", "")  # what is no template is refused by its place
    variables = [each for one in worker.template["spec"]["containers"] for each in one.get("env") or ()]
    named = [each.get("value") for each in variables if each.get("name") == ELASTIC_SERVER_VARIABLE]
    return next((value.strip() for value in named if isinstance(value, str)), "")
