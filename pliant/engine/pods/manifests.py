"""Manifests of the pods, services and ConfigMaps of a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pliant.engine.pods.shared_environment import LONG_VARIABLES_DIR, SharedEnvironment
from pliant.model.framework import Rank
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import (
    job_labels,
    pod_labels,
    rank_service_name,
    replica_labels,
    replica_pod_name,
    replica_service_name,
    service_selector,
)
from pliant.model.operator_config import OperatorConfig

ENVIRONMENT_VOLUME, FRAMEWORK_FILES_VOLUME = "pliant-env", "pliant-files"
READABLE_MODE, EXECUTABLE_MODE = 0o444, 0o555


def pod_manifest(environment: SharedEnvironment, rank: Rank) -> dict[str, Any]:
    job = environment.job
    template = rank.group.template
    metadata = template.get("metadata") or {}
    pod_metadata: dict[str, Any] = {
        "name": replica_pod_name(job, rank.group.name, rank.index),
        "namespace": job.key.namespace,
        "labels": {**(metadata.get("labels") or {}), **pod_labels(job, rank)},
        "ownerReferences": [owner_reference(job)],
    }
    if metadata.get("annotations"):
        pod_metadata["annotations"] = dict(metadata["annotations"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": _pod_spec(environment, rank)}


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
    """Return the ConfigMap with the files of a job; it is immutable, and its name contains a hash of the content."""
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
        # The engine restarts replicas as new pods, so that it can count and scope the restarts.
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
        # With the default policy the pod would use the name server of the host, which cannot resolve its peers.
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    if job.state is not None and job.state.avoided_nodes:
        spec["affinity"] = _with_avoided_nodes(job.state.avoided_nodes, spec.get("affinity") or {})
    return spec


def _with_avoided_nodes(nodes: tuple[str, ...], affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Add a preference for other nodes; not a requirement, since there may be no others."""
    node_affinity = affinity.get("nodeAffinity") or {}
    # matchFields accepts a single value, so there is one expression per node.
    expressions = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    preferences = [
        *(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        {"weight": 100, "preference": {"matchFields": expressions}},
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
    entries = [{"name": name, "value": value} for name, value in variables.items() if name not in user_names]
    shared = environment.env_entries_except(user_names | variables.keys())
    after = {**container, "env": [*entries, *shared, *user_env]}
    # Without a termination message, the kubelet reports the last log lines.
    after.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    if environment.config_map_name:
        paths = {
            ENVIRONMENT_VOLUME: LONG_VARIABLES_DIR if environment.variable_files else "",
            FRAMEWORK_FILES_VOLUME: environment.framework.files_dir if environment.framework_files else "",
        }
        user_mounts = container.get("volumeMounts") or ()
        # Two mounts at one path are invalid: that of the user takes precedence.
        used = {"", *((mount.get("mountPath") or "").rstrip("/") for mount in user_mounts)}
        mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in paths.items()]
        after["volumeMounts"] = [*user_mounts, *(mount for mount in mounts if mount["mountPath"] not in used)]
    return after


def _with_resources(container: Mapping[str, Any], resources: Mapping[str, str]) -> dict[str, Any]:
    before = container.get("resources") or {}
    after = {kind: {**(before.get(kind) or {}), **resources} for kind in ("requests", "limits")}
    return {**container, "resources": {**before, **after}}


def _config_map_volumes(environment: SharedEnvironment) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    if environment.variable_files:
        config_map: dict[str, Any] = {"name": environment.config_map_name, "defaultMode": READABLE_MODE}
        volumes.append({"name": ENVIRONMENT_VOLUME, "configMap": config_map})
    if environment.framework_files:
        items = [{"key": name, "path": name} for name in environment.framework_files]
        config_map = {"name": environment.config_map_name, "items": items, "defaultMode": EXECUTABLE_MODE}
        volumes.append({"name": FRAMEWORK_FILES_VOLUME, "configMap": config_map})
    return volumes


def owner_reference(job: Job) -> dict[str, Any]:
    return {
        "apiVersion": job.owner.api_version,
        "kind": job.owner.kind,
        "name": job.owner.name,
        "uid": job.owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def apply_master_defaults(job: Job, config: OperatorConfig) -> Job:
    """Fill in the image, the command and the service account of the master.

    A template without an image gets Pliant's master; its arguments are already in the template.
    """
    if not job.has_master:
        return job
    groups = tuple(_with_master_defaults(group, job, config) if group.is_master else group for group in job.groups)
    return dataclasses.replace(job, groups=groups)


def _with_master_defaults(group: ReplicaGroup, job: Job, config: OperatorConfig) -> ReplicaGroup:
    spec: Mapping[str, Any] = group.template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    if not first.get("image"):
        command = first.get("command") or list(config.master_command)
        first = {**first, "image": config.master_image or "pliant", "command": command}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or master_account_name(job, group)
    pod = {**spec, "serviceAccountName": account, "containers": [first, *others]}
    return dataclasses.replace(group, template={**group.template, "spec": pod})


def master_account_name(job: Job, group: ReplicaGroup) -> str:
    """Return the name of the service account that is created for a master: that of its service."""
    return replica_service_name(job, group.name, 0)
