"""Pod and service manifests for one rank: the template the user wrote plus what makes it a member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.engine.pods.shared_environment import ENVIRONMENT_DIR, SharedEnvironment
from pliant.model.framework import Rank
from pliant.model.job import Job
from pliant.model.labels import (
    job_labels,
    pod_labels,
    rank_service_name,
    replica_labels,
    replica_pod_name,
    service_selector,
)

ENVIRONMENT_VOLUME = "pliant-env"
"""Holds the files of a member's environment."""
FRAMEWORK_FILES_VOLUME = "pliant-files"
"""Holds the files of its framework."""
READABLE_MODE = 0o444
EXECUTABLE_MODE = 0o555


def pod_manifest(environment: SharedEnvironment, rank: Rank) -> dict[str, Any]:
    """The pod of one rank; the same arguments always make the same pod."""
    job = environment.job
    template = rank.group.template
    metadata = template.get("metadata") or {}
    described: dict[str, Any] = {
        "name": replica_pod_name(job, rank.group.name, rank.index),
        "namespace": job.key.namespace,
        "labels": {**(metadata.get("labels") or {}), **pod_labels(job, rank)},
        "ownerReferences": [owner_reference(job)],
    }
    if metadata.get("annotations"):
        described["annotations"] = dict(metadata["annotations"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": described, "spec": _pod_spec(environment, rank)}


def service_manifest(job: Job, rank: Rank) -> dict[str, Any]:
    """The service that gives one rank its name, whatever its attempt: headless, but for a job's master.

    Members keep the address of their master, and must not be left with that of one that is gone.
    """
    headless = {} if rank.group.is_master else {"clusterIP": "None"}
    spec: dict[str, Any] = {
        **headless,
        # Members look each other up while they start, before any of them is ready.
        "publishNotReadyAddresses": True,
        "selector": service_selector(job, rank),
    }
    ports = [(port.name or f"port-{port.number}", port.number) for port in rank.group.ports]
    if ports and rank.member is not None and rank.member.port is not None:
        ports[0] = (ports[0][0], rank.member.port)
    if ports:
        spec["ports"] = [{"name": name, "port": number} for name, number in ports]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": rank_service_name(job, rank),
            "namespace": job.key.namespace,
            "labels": replica_labels(job, rank),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def config_map_manifest(environment: SharedEnvironment) -> dict[str, Any]:
    """The files of a job's environment; they never change, as other content has another name."""
    job = environment.job
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": environment.config_map_name,
            "namespace": job.key.namespace,
            "labels": job_labels(job),
            "ownerReferences": [owner_reference(job)],
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
        spec["volumes"] = [*(spec.get("volumes") or ()), *_config_map_volumes(environment)]
    if rank.group.restart_rule.policy is not None or not spec.get("restartPolicy"):
        # The engine restarts members itself, as new pods, so that it can count and scope the restarts.
        spec["restartPolicy"] = "Never"
    if job.naming.subdomain:
        name = replica_pod_name(job, rank.group.name, rank.index)
        spec.setdefault("hostname", name)
        spec.setdefault("subdomain", job.naming.subdomain.format(pod=name))
    if job.scheduler_name:
        spec.setdefault("schedulerName", job.scheduler_name)
    if job.priority_class:
        spec.setdefault("priorityClassName", job.priority_class)
    if spec.get("hostNetwork"):
        # With the default policy such a pod would ask the host's name server, which knows none of its peers.
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    if job.state is not None and job.state.avoided_nodes:
        spec["affinity"] = _with_avoided_nodes(job.state.avoided_nodes, spec.get("affinity") or {})
    return spec


def _with_avoided_nodes(nodes: tuple[str, ...], affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Prefer other nodes than these; no more than prefer, for they may be all there are."""
    by_node = affinity.get("nodeAffinity") or {}
    # A field takes a single value, so there is an expression for each node.
    others = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    wish = {"weight": 100, "preference": {"matchFields": others}}
    wishes = [*(by_node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()), wish]
    return {**affinity, "nodeAffinity": {**by_node, "preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def _with_environment(container: Mapping[str, Any], environment: SharedEnvironment, rank: Rank) -> dict[str, Any]:
    """Our variables come first, so that the user's own may refer to them and may replace them."""
    own = container.get("env") or ()
    taken = {variable.get("name") for variable in own}
    personal = environment.framework.environment(environment.job, rank, container.get("name", ""))
    ours = [{"name": name, "value": value} for name, value in personal.items() if name not in taken]
    fitted = {**container, "env": [*ours, *environment.variables_except(taken | personal.keys()), *own]}
    # Of a program that says nothing of its own end, the last lines of its log do.
    fitted.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    if environment.config_map_name:
        places = {
            ENVIRONMENT_VOLUME: ENVIRONMENT_DIR if environment.variable_files else "",
            FRAMEWORK_FILES_VOLUME: environment.framework.files_dir if environment.framework_files else "",
        }
        mounted = container.get("volumeMounts") or ()
        # Where somebody has put a volume of their own, theirs is meant; no cluster takes two.
        used = {"", *((mount.get("mountPath") or "").rstrip("/") for mount in mounted)}
        mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in places.items()]
        fitted["volumeMounts"] = [*mounted, *(mount for mount in mounts if mount["mountPath"] not in used)]
    return fitted


def _with_resources(container: Mapping[str, Any], resources: Mapping[str, str]) -> dict[str, Any]:
    """A container with these requests, which are its limits, too; what a plan leaves out stays as it was."""
    own = container.get("resources") or {}
    wanted = {kind: {**(own.get(kind) or {}), **resources} for kind in ("requests", "limits")}
    return {**container, "resources": {**own, **wanted}}


def _config_map_volumes(environment: SharedEnvironment) -> list[dict[str, Any]]:
    """One ConfigMap, seen from two places."""
    found: list[dict[str, Any]] = []
    if environment.variable_files:
        found.append(
            {
                "name": ENVIRONMENT_VOLUME,
                "configMap": {"name": environment.config_map_name, "defaultMode": READABLE_MODE},
            }
        )
    if environment.framework_files:
        items = [{"key": name, "path": name} for name in environment.framework_files]
        held = {"name": environment.config_map_name, "items": items, "defaultMode": EXECUTABLE_MODE}
        found.append({"name": FRAMEWORK_FILES_VOLUME, "configMap": held})
    return found


def owner_reference(job: Job) -> dict[str, Any]:
    return {
        "apiVersion": job.owner.api_version,
        "kind": job.owner.kind,
        "name": job.owner.name,
        "uid": job.owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
