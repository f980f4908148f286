"""The pods of each role: what they run, with which variables, ports and volumes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.environment import (
    container_resources,
    port_numbers,
    require_trainer,
    static_environment,
    user_environment,
    workspace_path,
)
from pliant.frontends.paddle.types import PaddleJobSpec, PaddleRoleSpec
from pliant.frontends.spec.decoding import quote_json

PSERVER, TRAINER, MASTER = "pserver", "trainer", "master"
DEFAULT_IMAGE = "paddlepaddle/paddlecloud-job"
ETCD_IMAGE = "quay.io/coreos/etcd:v3.2.1"
WORKSPACE_VOLUME = "job-workspace"
"""The volume at mountPath."""
POD_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_SIMPLE_COMMAND_PATTERN = re.compile(r"[A-Za-z0-9_./+-]+(\s[^;&|\n]*)?")
_SHELL_BUILTIN_PATTERN = re.compile(
    r"[.!:]|alias|case|cd|command|eval|exec|exit|export|for|if|read|set|shift|source|trap|ulimit|umask|unset|until|wait"
    r"|while"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddleJobContext:
    """What all roles of a job have in common."""

    job_name: str
    spec: PaddleJobSpec
    uses_image_discovery: bool
    """Whether the image's own script finds peers and starts programs."""


def build_pod_template(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> dict[str, Any]:
    """The template of one role's pods."""
    spec = context.spec
    container = _build_container(context, role_name, role)
    containers = [container, _etcd_container(container["env"])] if role_name == MASTER else [container]
    pod: dict[str, Any] = {
        "containers": containers,
        "volumes": _pod_volumes(spec),
        "nodeSelector": _string_labels({**spec.node_selector, **role.node_selector}),
        "imagePullSecrets": [*spec.image_pull_secrets, *role.image_pull_secrets],
        "tolerations": role.tolerations,
        "schedulerName": spec.scheduler_name,
        "hostNetwork": spec.host_network,
    }
    if role.grace_period_seconds is not None:
        pod["terminationGracePeriodSeconds"] = role.grace_period_seconds
    template: dict[str, Any] = {"spec": {key: value for key, value in pod.items() if value not in ([], {}, "", False)}}
    if spec.pod_group_name:
        template["metadata"] = {"annotations": {POD_GROUP_ANNOTATION: spec.pod_group_name}}
    return template


def check_volumes(spec: PaddleJobSpec) -> None:
    """Raise InvalidSpec for volumes and mounts that no pod can have."""
    for index, volume in enumerate(spec.volumes):
        if not isinstance(volume.get("name"), str):
            raise InvalidSpec(f"spec.volumes[{index}].name", f"must be text, got {quote_json(volume.get('name'))}")
    for index, mount in enumerate(spec.volume_mounts):
        for field in ("name", "mountPath"):
            if not isinstance(mount.get(field), str):
                path = f"spec.VolumeMounts[{index}].{field}"
                raise InvalidSpec(path, f"must be text, got {quote_json(mount.get(field))}")
    if spec.mount_path and not spec.mount_path.startswith("/"):
        raise InvalidSpec("spec.mountPath", f"must be an absolute path, got {quote_json(spec.mount_path)}")


def _build_container(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> dict[str, Any]:
    spec = context.spec
    found: dict[str, Any] = {
        "name": role_name,
        "image": spec.image or DEFAULT_IMAGE,
        "command": _role_command(context, role_name, role),
        "env": _role_environment(context, role_name, role),
        "resources": container_resources(role) or (_DEFAULT_MASTER_RESOURCES if role_name == MASTER else {}),
        "ports": _container_ports(spec, role_name),
        "volumeMounts": _volume_mounts(spec),
        "livenessProbe": role.liveness_probe,
        "readinessProbe": role.readiness_probe,
    }
    if role.pre_stop_cmd and role.grace_period_seconds is not None:
        found["lifecycle"] = {
            "preStop": {"exec": {"command": _command_words(role.pre_stop_cmd, f"spec.{role_name}.pre_stop_cmd")}}
        }
    return {key: value for key, value in found.items() if value not in ([], {})}


def _role_command(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> list[str]:
    """What a role runs: its entrypoint in the workspace, or what the image has for it."""
    is_tolerant = bool(context.spec.fault_tolerant)
    if role_name == MASTER and not role.entrypoint:
        return ["paddle_k8s", "start_master"]
    if context.uses_image_discovery and role_name == PSERVER:
        return ["paddle_k8s", "start_new_pserver" if is_tolerant else "start_pserver"]
    if context.uses_image_discovery and role_name == TRAINER:
        return ["paddle_k8s", "start_new_trainer"] if is_tolerant else ["paddle_k8s", "start_trainer", "fluid"]
    return [
        "sh",
        "-c",
        _entrypoint_script(role.entrypoint or require_trainer(context.spec).entrypoint, workspace_path(context.spec)),
    ]


def _entrypoint_script(entrypoint: str, workspace: str) -> str:
    """The entrypoint in the workspace; a program takes the shell's place, so that it is told when to stop."""
    entry = entrypoint.strip()
    is_simple = _SIMPLE_COMMAND_PATTERN.fullmatch(entry) and not _SHELL_BUILTIN_PATTERN.fullmatch(entry.split()[0])
    run = f"exec {entry}" if is_simple else entry
    if not workspace:
        return run
    imports = 'export PYTHONPATH="$TRAINER_PACKAGE${PYTHONPATH:+:$PYTHONPATH}"'
    return f'{imports}\ncd "$TRAINER_PACKAGE" || exit 1\n{run}'


def _role_environment(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> list[dict[str, Any]]:
    """What its author says stands; what peers and sizes tell is added when a pod is made."""
    ours: list[dict[str, Any]] = [
        {"name": key, "value": value} for key, value in static_environment(context.spec, context.job_name).items()
    ]
    fields = {"NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"}
    if context.uses_image_discovery or role_name == MASTER:
        fields["POD_IP"] = "status.podIP"  # those scripts look for themselves in a list of addresses
    ours += [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    own = user_environment(role.envs, f"spec.{role_name}.envs")
    taken = {each["name"] for each in own}
    return [*(each for each in ours if each["name"] not in taken), *own]


def _container_ports(spec: PaddleJobSpec, role_name: str) -> list[dict[str, Any]]:
    if role_name == MASTER:
        return [{"name": "master-port", "containerPort": 8080}]
    numbers = port_numbers(spec, is_trainer=role_name == TRAINER)
    return [{"name": f"jobport-{number}", "containerPort": number} for number in numbers]


def _pod_volumes(spec: PaddleJobSpec) -> list[dict[str, Any]]:
    is_needed = _should_mount_workspace(spec) and all(volume["name"] != WORKSPACE_VOLUME for volume in spec.volumes)
    return [*spec.volumes, *([{"name": WORKSPACE_VOLUME, "emptyDir": {}}] if is_needed else [])]


def _volume_mounts(spec: PaddleJobSpec) -> list[dict[str, Any]]:
    return [
        *spec.volume_mounts,
        *([{"name": WORKSPACE_VOLUME, "mountPath": spec.mount_path}] if _should_mount_workspace(spec) else []),
    ]


def _should_mount_workspace(spec: PaddleJobSpec) -> bool:
    """Whether a volume is mounted at mountPath: not over a mount of theirs, nor an empty one over a program."""
    if not spec.mount_path:
        return False
    place = _with_trailing_slash(spec.mount_path)
    if any(_with_trailing_slash(mount["mountPath"]) == place for mount in spec.volume_mounts):
        return False
    is_given = any(volume["name"] == WORKSPACE_VOLUME for volume in spec.volumes)
    return is_given or not _with_trailing_slash(workspace_path(spec)).startswith(place)


def _with_trailing_slash(path: str) -> str:
    """A path to compare others with."""
    return f"{path.rstrip('/')}/"


_DEFAULT_MASTER_RESOURCES = {"requests": {"cpu": "1", "memory": "500Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


def _etcd_container(variables: list[dict[str, Any]]) -> dict[str, Any]:
    """The side-car of the master, one member that keeps what the master must not forget."""
    client = "http://$(POD_IP):2379,http://$(POD_IP):4001"
    return {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "command": [
            "etcd",
            "--name=etcd0",
            f"--advertise-client-urls={client}",
            "--listen-client-urls=http://0.0.0.0:2379,http://0.0.0.0:4001",
            "--initial-advertise-peer-urls=http://$(POD_IP):2380",
            "--listen-peer-urls=http://0.0.0.0:2380",
            "--initial-cluster=etcd0=http://$(POD_IP):2380",
            "--initial-cluster-state=new",
        ],
        "env": variables,
        "ports": [{"name": "etcd-port", "containerPort": 2379}],
    }


def _string_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else quote_json(value) for name, value in labels.items()}


def _command_words(command: Any, path: str) -> list[str]:
    """A command as a list; text is for a shell."""
    if isinstance(command, str):
        return ["sh", "-c", command]
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise InvalidSpec(path, f"must be text or a list of words, got {quote_json(command)}")
    return command
