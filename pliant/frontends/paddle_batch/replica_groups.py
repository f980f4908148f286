"""Build the replica groups of a PaddleJob: sizes, bounds, resize modes, restart rules and ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle_batch.types import (
    ROLES,
    WORKER,
    BatchPaddleCleanPolicy,
    BatchPaddleJobSpec,
    BatchPaddleRoleSpec,
    Intranet,
)
from pliant.frontends.spec.decoding import abbreviate_json, list_ignored_fields
from pliant.frontends.spec.pod_templates import hash_template, inspect_pod_template
from pliant.model.job import EndPolicy, Port, ReplicaGroup, ResizeMode, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import SizeRequester

ELASTIC_SERVER_OPTION = "elastic_server"
ELASTIC_SERVER_ANNOTATION = "pliant/elastic-server"
"""The address of the etcd server of Paddle's launcher, `etcd.default:2379`."""
ELASTIC_SERVER_VARIABLE = "PADDLE_ELASTIC_SERVER"
"""The container variable with the same meaning."""
QUEUE_ANNOTATION = "volcano.sh/queue-name"
FIXED_SIZE_REASON = (
    "the number of trainers is set at the start (PADDLE_TRAINERS_NUM);"
    " set spec.elastic: 1 to restart them with another size"
)
DEFAULT_FIRST_PORT = 36000
PORTS_PER_REPLICA = 20
"""Ports that a replica may use, counted from its first port."""
HOST_PORTS_PER_JOB = PORTS_PER_REPLICA * len(ROLES)
"""Ports of a job on the network of the nodes: each role has its own, because roles may share a node."""
MIN_HOST_PORT, MAX_HOST_PORT = 20_000, 30_000
"""The range of host ports: below the node ports of services and the ephemeral ports of nodes."""
HOST_PORT_ANNOTATION = "host-port"
"""The annotation that sets the first host port."""
_RESTARTING_POLICIES = ("Always", "OnFailure")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPaddleJobContext:
    """The parts of a PaddleJob that all its roles share."""

    spec: BatchPaddleJobSpec
    elastic_server: str
    """The address of the etcd server with which workers join and leave a running job; empty if there is none."""
    resize_mode: ResizeMode
    first_ports: Mapping[str, int]
    """The first port by role."""
    is_suspended: bool

    @classmethod
    def from_spec(
        cls,
        spec: BatchPaddleJobSpec,
        annotations: Mapping[str, str],
        first_ports: Mapping[str, int],
        *,
        is_suspended: bool,
    ) -> BatchPaddleJobContext:
        """Return the context of a spec; raise InvalidSpec for an invalid template of the workers."""
        elastic_server = annotations.get(ELASTIC_SERVER_ANNOTATION, "").strip() or _template_elastic_server(spec.worker)
        return cls(
            spec=spec,
            elastic_server=elastic_server,
            resize_mode=_resize_mode(spec, elastic_server),
            first_ports=first_ports,
            is_suspended=is_suspended,
        )

    @property
    def is_elastic(self) -> bool:
        return self.resize_mode is not ResizeMode.FIXED


def build_groups(context: BatchPaddleJobContext) -> tuple[ReplicaGroup, ...]:
    """Return one group per role."""
    return tuple(_build_group(name, role, context) for name, role in context.spec.roles.items())


def _build_group(role_name: str, role: BatchPaddleRoleSpec, context: BatchPaddleJobContext) -> ReplicaGroup:
    info = inspect_pod_template(role.template, f"spec.{role_name}.template", "")
    first_container = role.template["spec"]["containers"][0]["name"]
    size = 1 if role.replicas is None else role.replicas
    is_elastic = context.is_elastic and role_name == WORKER
    min_size, max_size = _worker_bounds(role, size) if is_elastic else (0, None)
    is_fixed = context.resize_mode is ResizeMode.FIXED and not context.is_suspended
    return ReplicaGroup(
        name=role_name,
        path=f"spec.{role_name}",
        size=size,
        min_size=min_size,
        max_size=max_size,
        is_elastic=is_elastic,
        is_autoscaled=is_elastic and bool(role.requests) and max_size is not None and min_size < max_size,
        resize_mode=ResizeMode.JOIN if context.is_suspended else context.resize_mode,
        fixed_size_reason=FIXED_SIZE_REASON if is_fixed else "",
        requested_sizes={SizeRequester.SPEC: size},
        template=_build_pod_template(role_name, role.template, context),
        template_hash=hash_template(role.template),
        ports=replica_ports(context.first_ports[role_name], info.ports, first_container),
        complete_policy=EndPolicy.ALL if role_name == WORKER or context.spec.worker is None else EndPolicy.NONE,
        restart_rule=_restart_rule(role_name, role, context),
    )


def spec_warnings(context: BatchPaddleJobContext) -> tuple[str, ...]:
    """Return warnings about fields that have no effect."""
    spec = context.spec
    warnings = [*list_ignored_fields(spec, "spec")]
    if spec.clean_pod_policy is BatchPaddleCleanPolicy.ON_FAILED:
        warnings.append("spec.cleanPodPolicy: OnFailed means Never; to delete the pods of a failed job, set OnFailure")
    for name, role in spec.roles.items():
        if name != WORKER and (role.requests or role.limits):
            warnings.append(f"spec.{name}: requests and limits are ignored: only workers are elastic")
    if context.elastic_server and context.resize_mode is ResizeMode.RESTART:
        cause = "spec.worker.limits is not set" if [*spec.roles] == [WORKER] else "the job has roles other than worker"
        warnings.append(f"{cause}: the etcd at {context.elastic_server} is not used; a resize restarts all workers")
    return tuple(warnings)


def _resize_mode(spec: BatchPaddleJobSpec, elastic_server: str) -> ResizeMode:
    """Return how replicas learn of another size.

    With an etcd server and limits, Paddle's launcher lets workers join and leave. Otherwise a resize restarts all
    replicas of an elastic job, and the size of all other jobs is fixed.
    """
    has_limits = spec.worker is not None and bool(spec.worker.limits)
    if spec.elastic is None and not has_limits:
        return ResizeMode.FIXED
    return ResizeMode.JOIN if elastic_server and has_limits and [*spec.roles] == [WORKER] else ResizeMode.RESTART


def _worker_bounds(role: BatchPaddleRoleSpec, size: int) -> tuple[int, int | None]:
    """Return the minimum and maximum number of workers; 0 counts as absent."""
    min_size = role.requests or min(size, 1)
    max_size = role.limits or None
    if max_size is not None and min_size > max_size:
        raise InvalidSpec("spec.worker.requests", f"must be at most limits ({max_size}), got {min_size}")
    return min_size, max_size


def _restart_rule(role_name: str, role: BatchPaddleRoleSpec, context: BatchPaddleJobContext) -> RestartRule:
    """Return the restart rule: elastic replicas restart, others by restartPolicy of the template.

    Without restartPolicy, workers with services restart. Workers without servers synchronize at every step, so all
    of them restart unless the launcher lets a single worker join again.
    """
    template_policy = role.template["spec"].get("restartPolicy")
    is_service_worker = role_name == WORKER and context.spec.intranet is Intranet.SERVICE
    restarts = (
        context.is_elastic or template_policy in _RESTARTING_POLICIES or (not template_policy and is_service_worker)
    )
    restarts_alone = context.spec.ps is not None or context.resize_mode is ResizeMode.JOIN
    return RestartRule(
        policy=RestartPolicy.ALWAYS if restarts else RestartPolicy.NEVER,
        scope=RestartScope.POD if restarts_alone else RestartScope.ALL,
    )


def _build_pod_template(role_name: str, template: Mapping[str, Any], context: BatchPaddleJobContext) -> dict[str, Any]:
    """Return a valid template with the annotations and the host network of the job."""
    spec = dict(template["spec"])
    if context.spec.intranet is Intranet.HOST:
        spec = with_host_network(spec, context.first_ports[role_name])
    metadata = template.get("metadata") or {}
    policy = context.spec.scheduling_policy
    queue = {QUEUE_ANNOTATION: policy.queue} if policy and policy.queue else {}
    annotations = {**(metadata.get("annotations") or {}), "paddle-resource": role_name, **queue}
    return {**template, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _template_elastic_server(worker: BatchPaddleRoleSpec | None) -> str:
    """Return the etcd server that the template of the workers sets as a variable."""
    if worker is None:
        return ""
    inspect_pod_template(worker.template, "spec.worker.template", "")  # raises InvalidSpec with the path
    variables = [each for container in worker.template["spec"]["containers"] for each in container.get("env") or ()]
    values = [each.get("value") for each in variables if each.get("name") == ELASTIC_SERVER_VARIABLE]
    return next((value.strip() for value in values if isinstance(value, str)), "")


def first_port_by_role(intranet: Intranet | None, annotations: Mapping[str, str], uid: str) -> dict[str, int]:
    """Return the first port of each role: fixed on the pod network, specific to the job on the network of the nodes."""
    if intranet is not Intranet.HOST:
        return dict.fromkeys(ROLES, DEFAULT_FIRST_PORT)
    first = _annotated_host_port(annotations) or _hashed_host_port(uid)
    return {role: first + number * PORTS_PER_REPLICA for number, role in enumerate(ROLES)}


def replica_ports(first_port: int, template_ports: tuple[Port, ...], container: str) -> tuple[Port, ...]:
    """Return the ports of a replica: its first port, the rendezvous port of the launcher, and those of the template."""
    own = (Port("paddle", first_port, container), Port("master", first_port + PORTS_PER_REPLICA - 1, container))
    names, numbers = {port.name for port in own}, {port.number for port in own}
    return (*own, *(port for port in template_ports if port.name not in names and port.number not in numbers))


def with_host_network(pod_spec: Mapping[str, Any], port: int) -> dict[str, Any]:
    """Return the pod spec with hostNetwork, and with a hostPort that prevents port conflicts on a node."""
    first, *others = pod_spec["containers"]
    ports = first.get("ports") or []
    if all(each.get("containerPort") != port for each in ports):
        ports = [*ports, {"containerPort": port, "hostPort": port}]
    return {**pod_spec, "hostNetwork": True, "containers": [{**first, "ports": ports}, *others]}


def _annotated_host_port(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(HOST_PORT_ANNOTATION, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65_536 - HOST_PORTS_PER_JOB:
        problem = f"must be a port between 1024 and {65_536 - HOST_PORTS_PER_JOB}, got {abbreviate_json(text)}"
        raise InvalidSpec(f"metadata.annotations.{HOST_PORT_ANNOTATION}", problem)
    return int(text)


def _hashed_host_port(uid: str) -> int:
    """Return a host port derived from the UID, so that a restarted operator computes the same port."""
    digest = int.from_bytes(blake2b(uid.encode(), digest_size=8).digest())
    return MIN_HOST_PORT + digest % ((MAX_HOST_PORT - MIN_HOST_PORT) // HOST_PORTS_PER_JOB) * HOST_PORTS_PER_JOB
