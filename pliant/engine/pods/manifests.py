"""Manifests of the pods, services and ConfigMaps of a job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pliant.engine.membership_file import add_membership_file
from pliant.engine.pods.checkpoint_hook import add_checkpoint_hook
from pliant.engine.pods.shared_environment import SharedEnvironment
from pliant.model.framework import Rank
from pliant.model.job import ALL_REPLICAS, Job, Port
from pliant.model.labels import (
    EXCLUDED_NODES_ANNOTATION,
    TEMPLATE_HASH_ANNOTATION,
    WORKSPACE_ANNOTATION,
    has_own_service,
    job_labels,
    job_selector,
    job_service_name,
    owner_references,
    pod_labels,
    rank_service_name,
    replica_labels,
    replica_pod_name,
    service_selector,
)
from pliant.schemas.quantity import parse_quantity

_OVERCOMMITTABLE = ("cpu", "memory", "ephemeral-storage")
"""Resources whose limits may exceed the requests."""


def pod_manifest(environment: SharedEnvironment, rank: Rank) -> dict[str, Any]:
    job = environment.job
    template = rank.group.template
    metadata = template.get("metadata") or {}
    pod_metadata: dict[str, Any] = {
        "name": replica_pod_name(job, rank.group.name, rank.index),
        "namespace": job.key.namespace,
        "labels": {**(metadata.get("labels") or {}), **pod_labels(job, rank)},
        "ownerReferences": owner_references(job.owner),
    }
    annotations = dict(metadata.get("annotations") or {})
    if rank.group.template_hash:
        annotations[TEMPLATE_HASH_ANNOTATION] = rank.group.template_hash
    if job.workspace:
        annotations[WORKSPACE_ANNOTATION] = job.workspace
    if excluded := nodes_to_exclude(rank, environment.excluded_nodes):
        annotations[EXCLUDED_NODES_ANNOTATION] = ",".join(excluded)
    if annotations:
        pod_metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": _pod_spec(environment, rank)}


def job_service_manifest(job: Job) -> dict[str, Any]:
    """Return the headless service that gives every replica a name; it needs no ports for that."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": job_selector(job)}
    return _service(job, job_service_name(job), job_labels(job), spec)


def service_manifest(job: Job, rank: Rank) -> dict[str, Any]:
    """Return the service of one replica: headless, except that of a master.

    Replicas cache the address of their master, so it must not change when the master is restarted.
    """
    headless = {} if rank.group.is_master else {"clusterIP": "None"}
    spec: dict[str, Any] = {
        **headless,
        # Replicas resolve each other while they start, before they are ready.
        "publishNotReadyAddresses": True,
        "selector": service_selector(job, rank),
    }
    if rank.group.ports:
        spec["ports"] = _service_ports(rank.group.ports, rank.member.port if rank.member is not None else None)
    return _service(job, rank_service_name(job, rank), replica_labels(job, rank), spec)


def _service(job: Job, name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": job.key.namespace,
        "labels": labels,
        "ownerReferences": owner_references(job.owner),
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


@lru_cache(maxsize=256)
def _service_ports(ports: tuple[Port, ...], first_number: int | None) -> tuple[Mapping[str, Any], ...]:
    """Return the ports of a service, which the services of a group share; a plan may set the first number."""
    numbers = [port.number for port in ports]
    numbers[0] = numbers[0] if first_number is None else first_number
    names = [port.name or f"port-{port.number}" for port in ports]
    return tuple({"name": name, "port": number} for name, number in zip(names, numbers, strict=True))


def config_map_manifest(environment: SharedEnvironment) -> dict[str, Any]:
    """Return the ConfigMap with the files of a job; it is immutable, and its name contains a hash of the content."""
    job = environment.job
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": environment.config_map_name,
            "namespace": job.key.namespace,
            "labels": job_labels(job),
            "ownerReferences": owner_references(job.owner),
        },
        "immutable": True,
        "data": {**environment.variable_files, **environment.framework_files},
    }


def _pod_spec(environment: SharedEnvironment, rank: Rank) -> dict[str, Any]:
    job = environment.job
    spec = dict(rank.group.template.get("spec") or {})
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_with_environment(each, environment, rank) for each in spec[kind]]
    if rank.member is not None and rank.member.resources and spec.get("containers"):
        first, *others = spec["containers"]
        spec["containers"] = [_with_resources(first, rank.member.resources), *others]
    if environment.config_map_name:
        spec["volumes"] = [*(spec.get("volumes") or ()), *environment.volumes]
    add_membership_file(spec, job, rank.group)
    add_checkpoint_hook(spec, job, rank.group)
    if rank.group.restart_rule.policy is not None or not spec.get("restartPolicy"):
        # The engine restarts replicas as new pods, so that it can count and scope the restarts.
        spec["restartPolicy"] = "Never"
    if not has_own_service(job, rank.group.name, ALL_REPLICAS - 1):
        spec.setdefault("hostname", rank_service_name(job, rank))
        spec.setdefault("subdomain", job_service_name(job))
    elif job.naming.subdomain:
        name = replica_pod_name(job, rank.group.name, rank.index)
        spec.setdefault("hostname", name)
        spec.setdefault("subdomain", job.naming.subdomain.format(pod=name))
    if job.scheduler_name:
        spec.setdefault("schedulerName", job.scheduler_name)
    priority_class = rank.group.priority_class or job.priority_class
    if priority_class and priority_class not in job.missing_priority_classes:
        spec.setdefault("priorityClassName", priority_class)
    if spec.get("hostNetwork"):
        # With the default policy the pod would use the name server of the host, which cannot resolve its peers.
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    if affinity := _pod_affinity(environment, rank, spec.get("affinity") or {}):
        spec["affinity"] = affinity
    return spec


def _pod_affinity(environment: SharedEnvironment, rank: Rank, affinity: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the affinity of the template, with the nodes that the pod excludes and avoids."""
    if excluded := nodes_to_exclude(rank, environment.excluded_nodes):
        affinity = _with_excluded_nodes(excluded, affinity)
    faulty = () if excluded else environment.excluded_nodes.get(rank.group.name, ())
    avoided = tuple(dict.fromkeys((*environment.avoided_nodes, *faulty)))
    return _with_avoided_nodes(avoided, affinity) if avoided else affinity


def nodes_to_exclude(rank: Rank, unusable_nodes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the nodes on which the pod of a replica must not be placed.

    The engine recreates a waiting pod when these nodes recover. It cannot recreate the pod of a master's member, so
    that one only prefers other nodes.
    """
    is_bound = bool((rank.group.template.get("spec") or {}).get("nodeName"))
    return () if is_bound or rank.group.is_master_managed else unusable_nodes.get(rank.group.name, ())


def _with_excluded_nodes(nodes: tuple[str, ...], affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Add a requirement for other nodes to each of the alternative terms."""
    node_affinity, field = affinity.get("nodeAffinity") or {}, "requiredDuringSchedulingIgnoredDuringExecution"
    required: Mapping[str, Any] = node_affinity.get(field) or {}
    alternatives: list[Mapping[str, Any]] = required.get("nodeSelectorTerms") or [{}]
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *_expressions_for_other_nodes(nodes)]}
        for term in alternatives
    ]
    return {**affinity, "nodeAffinity": {**node_affinity, field: {**required, "nodeSelectorTerms": terms}}}


def _expressions_for_other_nodes(nodes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return one expression per node: matchFields accepts a single value."""
    return [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]


def _with_avoided_nodes(nodes: tuple[str, ...], affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Add a preference for other nodes; not a requirement, since there may be no others."""
    node_affinity = affinity.get("nodeAffinity") or {}
    preferences = [
        *(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        {"weight": 100, "preference": {"matchFields": _expressions_for_other_nodes(nodes)}},
    ]
    node_affinity = {**node_affinity, "preferredDuringSchedulingIgnoredDuringExecution": preferences}
    return {**affinity, "nodeAffinity": node_affinity}


def _with_environment(container: Mapping[str, Any], environment: SharedEnvironment, rank: Rank) -> dict[str, Any]:
    """Add the variables and mounts of the framework to a container.

    The variables of the framework come first, so that those of the user can refer to them and override them.
    """
    user_env = container.get("env") or ()
    user_names = {variable.get("name") for variable in user_env}
    variables = environment.framework.environment(environment.job, rank, container.get("name", ""))
    entries = [_env_entry(name, value) for name, value in variables.items() if name not in user_names]
    shared = environment.env_entries_except(user_names | variables.keys())
    after = {**container, "env": [*entries, *shared, *user_env]}
    # Without a termination message, the kubelet reports the last log lines.
    after.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    if environment.config_map_name:
        user_mounts = container.get("volumeMounts") or ()
        # Two mounts at one path are invalid: that of the user takes precedence.
        used = {(mount.get("mountPath") or "").rstrip("/") for mount in user_mounts}
        mounts = (mount for mount in environment.mounts if mount["mountPath"] not in used)
        after["volumeMounts"] = [*user_mounts, *mounts]
    return after


@lru_cache(maxsize=1024)
def _env_entry(name: str, value: str) -> Mapping[str, str]:
    """Return an entry of `env`; most replicas of a job share it."""
    return {"name": name, "value": value}


def _is_above(limit: str | int | float, amount: str) -> bool:
    try:
        return parse_quantity(limit) > parse_quantity(amount)
    except ValueError:
        return True  # the API server reports an invalid limit


def _with_resources(container: Mapping[str, Any], resources: Mapping[str, str]) -> dict[str, Any]:
    """Set requests and limits; a higher limit of the template stays, where Kubernetes allows limits above requests."""
    before = container.get("resources") or {}
    requests, limits = before.get("requests") or {}, before.get("limits") or {}
    kept = {
        name: limits[name]
        for name, amount in resources.items()
        if name in _OVERCOMMITTABLE and name in limits and _is_above(limits[name], amount)
    }
    after = {"requests": {**requests, **resources}, "limits": {**limits, **resources, **kept}}
    return {**container, "resources": {**before, **after}}
