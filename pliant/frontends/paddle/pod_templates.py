"""Build the pod templates of a PaddleJob from the settings of its roles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle import environment
from pliant.frontends.paddle.types import PaddleJobSpec, PaddleRoleSpec
from pliant.frontends.spec.decoding import abbreviate_json
from pliant.frontends.spec.template_schema import check_template_types

PSERVER, TRAINER, MASTER = "pserver", "trainer", "master"
DEFAULT_IMAGE = "paddlepaddle/paddlecloud-job"
ETCD_IMAGE = "quay.io/coreos/etcd:v3.2.1"
WORKSPACE_VOLUME = "job-workspace"
POD_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_SIMPLE_COMMAND_PATTERN = re.compile(r"[A-Za-z0-9_./+-]+(\s[^;&|\n]*)?")
_SHELL_BUILTIN_PATTERN = re.compile(
    r"[.!:]|alias|case|cd|command|eval|exec|exit|export|for|if|read|set|shift|source|trap|ulimit|umask|unset|until|wait"
    r"|while"
)
_SPEC_FIELDS = {
    ".spec.containers[0].env": "spec.{role}.envs",
    ".spec.containers[0].lifecycle": "spec.{role}.pre_stop_cmd",
    ".spec.containers[0].livenessProbe": "spec.{role}.liveness_probe",
    ".spec.containers[0].readinessProbe": "spec.{role}.readiness_probe",
    ".spec.containers[0].resources": "spec.{role}.resources",
    ".spec.containers[0].volumeMounts": "spec.VolumeMounts",
    ".spec.tolerations": "spec.{role}.tolerations",
    ".spec.volumes": "spec.volumes",
}
"""The fields of the spec by the fields of the pod template that contain their values unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddleJobContext:
    """The parts of a PaddleJob that all its roles share."""

    job_name: str
    spec: PaddleJobSpec
    uses_image_peer_discovery: bool
    """Whether the script of the image discovers peers and starts the program."""


def build_pod_template(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> dict[str, Any]:
    """Return the pod template of a role."""
    spec = context.spec
    container = _build_container(context, role_name, role)
    containers = [container, _etcd_container(container["env"])] if role_name == MASTER else [container]
    pod: dict[str, Any] = {
        "containers": containers,
        "volumes": _pod_volumes(spec),
        "nodeSelector": {
            name: value if isinstance(value, str) else abbreviate_json(value)
            for name, value in {**spec.node_selector, **role.node_selector}.items()
        },
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
    try:
        check_template_types(template, "")
    except InvalidSpec as problem:
        raise InvalidSpec(_spec_field(problem.field, role_name, spec), problem.problem) from None
    return template


def _spec_field(template_field: str, role_name: str, spec: PaddleJobSpec) -> str:
    """Return the field of the spec that a field of the pod template comes from."""
    indexed = re.fullmatch(r"\.spec\.imagePullSecrets\[([0-9]+)\](.*)", template_field)
    if indexed is not None:
        index, count = int(indexed[1]), len(spec.image_pull_secrets)
        owner = (
            f"spec.imagePullSecrets[{index}]"
            if index < count
            else f"spec.{role_name}.imagePullSecrets[{index - count}]"
        )
        return f"{owner}{indexed[2]}"
    for prefix, field in _SPEC_FIELDS.items():
        if template_field.startswith(prefix):
            # The operator adds variables of its own.
            rest = "" if field.endswith((".envs", ".pre_stop_cmd")) else template_field[len(prefix) :]
            return f"{field.format(role=role_name)}{rest}"
    return f"spec.{role_name}"


def check_volumes(spec: PaddleJobSpec) -> None:
    """Raise InvalidSpec for invalid volumes and volume mounts."""
    for index, volume in enumerate(spec.volumes):
        if not isinstance(volume.get("name"), str):
            raise InvalidSpec(
                f"spec.volumes[{index}].name", f"must be a string, got {abbreviate_json(volume.get('name'))}"
            )
    for index, mount in enumerate(spec.volume_mounts):
        for field in ("name", "mountPath"):
            if not isinstance(mount.get(field), str):
                path = f"spec.VolumeMounts[{index}].{field}"
                raise InvalidSpec(path, f"must be a string, got {abbreviate_json(mount.get(field))}")
    if spec.mount_path and not spec.mount_path.startswith("/"):
        raise InvalidSpec("spec.mountPath", f"must be an absolute path, got {abbreviate_json(spec.mount_path)}")


def _build_container(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> dict[str, Any]:
    spec = context.spec
    container: dict[str, Any] = {
        "name": role_name,
        "image": spec.image or DEFAULT_IMAGE,
        "command": _role_command(context, role_name, role),
        "env": _role_environment(context, role_name, role),
        "resources": environment.container_resources(role)
        or (_DEFAULT_MASTER_RESOURCES if role_name == MASTER else {}),
        "ports": _container_ports(spec, role_name),
        "volumeMounts": _volume_mounts(spec),
        "livenessProbe": role.liveness_probe,
        "readinessProbe": role.readiness_probe,
    }
    if role.pre_stop_cmd and role.grace_period_seconds is not None:
        command = _command_words(role.pre_stop_cmd, f"spec.{role_name}.pre_stop_cmd")
        container["lifecycle"] = {"preStop": {"exec": {"command": command}}}
    return {key: value for key, value in container.items() if value not in ([], {})}


def _role_command(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> list[str]:
    """Return the command of a role: its entrypoint, or the start script of the image."""
    is_tolerant = bool(context.spec.fault_tolerant)
    if role_name == MASTER and not role.entrypoint:
        return ["paddle_k8s", "start_master"]
    if context.uses_image_peer_discovery and role_name == PSERVER:
        return ["paddle_k8s", "start_new_pserver" if is_tolerant else "start_pserver"]
    if context.uses_image_peer_discovery and role_name == TRAINER:
        return ["paddle_k8s", "start_new_trainer"] if is_tolerant else ["paddle_k8s", "start_trainer", "fluid"]
    entrypoint = role.entrypoint or environment.require_trainer(context.spec).entrypoint
    return ["sh", "-c", _entrypoint_script(entrypoint, environment.workspace_path(context.spec))]


def _entrypoint_script(entrypoint: str, workspace: str) -> str:
    """Return a script that runs the entrypoint in the workspace; `exec` lets the program receive SIGTERM."""
    command = entrypoint.strip()
    is_simple = _SIMPLE_COMMAND_PATTERN.fullmatch(command) and not _SHELL_BUILTIN_PATTERN.fullmatch(command.split()[0])
    run = f"exec {command}" if is_simple else command
    if not workspace:
        return run
    python_path = 'export PYTHONPATH="$TRAINER_PACKAGE${PYTHONPATH:+:$PYTHONPATH}"'
    return f'{python_path}\ncd "$TRAINER_PACKAGE" || exit 1\n{run}'


def _role_environment(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> list[dict[str, Any]]:
    """Return the variables of a role; those of the user take precedence."""
    defaults: list[dict[str, Any]] = [
        {"name": key, "value": value}
        for key, value in environment.static_environment(context.spec, context.job_name).items()
    ]
    fields = {"NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"}
    if context.uses_image_peer_discovery or role_name == MASTER:
        fields["POD_IP"] = "status.podIP"  # the scripts of the image search for their own address
    defaults += [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    from_user = environment.user_environment(role.envs, f"spec.{role_name}.envs")
    user_names = {each["name"] for each in from_user}
    return [*(each for each in defaults if each["name"] not in user_names), *from_user]


def _container_ports(spec: PaddleJobSpec, role_name: str) -> list[dict[str, Any]]:
    if role_name == MASTER:
        return [{"name": "master-port", "containerPort": 8080}]
    numbers = environment.port_numbers(spec, is_trainer=role_name == TRAINER)
    return [{"name": f"jobport-{number}", "containerPort": number} for number in numbers]


def _pod_volumes(spec: PaddleJobSpec) -> list[dict[str, Any]]:
    if not _should_mount_workspace(spec) or any(volume["name"] == WORKSPACE_VOLUME for volume in spec.volumes):
        return spec.volumes
    return [*spec.volumes, {"name": WORKSPACE_VOLUME, "emptyDir": {}}]


def _volume_mounts(spec: PaddleJobSpec) -> list[dict[str, Any]]:
    if not _should_mount_workspace(spec):
        return spec.volume_mounts
    return [*spec.volume_mounts, {"name": WORKSPACE_VOLUME, "mountPath": spec.mount_path}]


def _should_mount_workspace(spec: PaddleJobSpec) -> bool:
    """Return whether to mount a volume at mountPath: never over a mount of the user or, if empty, over the program."""
    if not spec.mount_path:
        return False
    mount_path = _with_trailing_slash(spec.mount_path)
    if any(_with_trailing_slash(mount["mountPath"]) == mount_path for mount in spec.volume_mounts):
        return False
    has_volume = any(volume["name"] == WORKSPACE_VOLUME for volume in spec.volumes)
    return has_volume or not _with_trailing_slash(environment.workspace_path(spec)).startswith(mount_path)


def _with_trailing_slash(path: str) -> str:
    return f"{path.rstrip('/')}/"


_DEFAULT_MASTER_RESOURCES = {"requests": {"cpu": "1", "memory": "500Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


def _etcd_container(variables: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sidecar of the master: a single-member etcd that stores the state of the master."""
    return {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "command": [
            "etcd",
            "--name=etcd0",
            "--advertise-client-urls=http://$(POD_IP):2379,http://$(POD_IP):4001",
            "--listen-client-urls=http://0.0.0.0:2379,http://0.0.0.0:4001",
            "--initial-advertise-peer-urls=http://$(POD_IP):2380",
            "--listen-peer-urls=http://0.0.0.0:2380",
            "--initial-cluster=etcd0=http://$(POD_IP):2380",
            "--initial-cluster-state=new",
        ],
        "env": variables,
        "ports": [{"name": "etcd-port", "containerPort": 2379}],
    }


def _command_words(command: Any, path: str) -> list[str]:
    """Return a command as a list; a string is run by a shell."""
    if isinstance(command, str):
        return ["sh", "-c", command]
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise InvalidSpec(path, f"must be a string or a list of strings, got {abbreviate_json(command)}")
    return command
