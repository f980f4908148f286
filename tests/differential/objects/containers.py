"""Random valid containers of pods."""

from __future__ import annotations

import random
from typing import Any

Fields = dict[str, Any]


def make_container(rng: random.Random, name: str) -> Fields:
    container: Fields = {"name": name, "image": rng.choice(("busybox", "busybox:1", "x@sha256:00"))}
    options = _container_options(rng)
    for option in rng.sample(sorted(options), rng.choice((0, 1, 1, 2, 3))):
        container[option] = options[option]
    return container


def make_init_container(rng: random.Random) -> Fields:
    """Return an init container; those that restart always may have probes, like containers."""
    if rng.random() < 0.5:
        return {**make_container(rng, "init"), "restartPolicy": "Always"}
    container = make_container(rng, "init")
    for field in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        container.pop(field, None)
    return container


def make_ephemeral_container(rng: random.Random) -> Fields:
    container: Fields = {"name": rng.choice(("debug", "debug", "other")), "image": "busybox:1"}
    options: Fields = {
        "command": ["sh"],
        "env": _make_env(rng),
        "targetContainerName": "main",
        "stdin": True,
        "tty": True,
        "securityContext": _make_security_context(rng),
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "v0", "mountPath": "/v"}],
        "livenessProbe": {"exec": {"command": ["x"]}},
        "restartPolicy": "Always",
    }
    for option in rng.sample(sorted(options), rng.choice((0, 1, 1, 2))):
        container[option] = options[option]
    return container


def _container_options(rng: random.Random) -> Fields:
    return {
        "command": ["true"],
        "args": ["$(A)"],
        "workingDir": "/tmp",
        "env": _make_env(rng),
        "envFrom": [{"configMapRef": {"name": "c", "optional": True}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
        "ports": _make_ports(rng),
        "resources": _make_resources(rng),
        "resizePolicy": rng.choice(
            (
                [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                [{"resourceName": "memory", "restartPolicy": "NotRequired"}],
            )
        ),
        "livenessProbe": _make_probe(rng),
        "readinessProbe": _make_probe(rng),
        "startupProbe": _make_probe(rng),
        "lifecycle": _make_lifecycle(rng),
        "imagePullPolicy": rng.choice(("Always", "Never", "IfNotPresent")),
        "terminationMessagePolicy": rng.choice(("File", "FallbackToLogsOnError")),
        "terminationMessagePath": "/dev/log",
        "securityContext": _make_security_context(rng),
        "stdin": True,
        "stdinOnce": True,
        "tty": True,
    }


def _make_ports(rng: random.Random) -> list[Fields]:
    ports: list[Fields] = [
        {"containerPort": 80, "name": "http"},
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 90, "hostPort": 90},
        {"containerPort": 91, "hostPort": 91, "hostIP": "127.0.0.1", "protocol": "SCTP"},
    ]
    return rng.sample(ports, rng.randrange(1, 3))


def _make_resources(rng: random.Random) -> Fields:
    choices: tuple[Fields, ...] = (
        {"limits": {"cpu": "1", "memory": "1Gi"}},
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}},
        {"requests": {"memory": "1.5Gi", "cpu": 1}},
        {"limits": {"nvidia.com/gpu": 1}},
        {"limits": {"example.org/dongle": "2"}, "requests": {"example.org/dongle": "2"}},
        {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}},
        {"requests": {"ephemeral-storage": "1Gi"}},
        {"limits": {"cpu": "1"}, "requests": {}},
        {"claims": [{"name": "r"}]},
    )
    return rng.choice(choices)


def _make_security_context(rng: random.Random) -> Fields:
    options: Fields = {
        "runAsUser": rng.choice((0, 1000)),
        "runAsGroup": 5,
        "runAsNonRoot": rng.choice((True, False)),
        "allowPrivilegeEscalation": rng.choice((True, False)),
        "privileged": rng.choice((True, False)),
        "readOnlyRootFilesystem": True,
        "capabilities": rng.choice(({"add": ["NET_ADMIN"], "drop": ["ALL"]}, {"add": ["CAP_SYS_ADMIN"]})),
        "procMount": rng.choice(("Default", "Default", "Unmasked")),
        "seLinuxOptions": {"level": "s0"},
        "seccompProfile": rng.choice(({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "a/b"})),
        "appArmorProfile": rng.choice(({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "a"})),
        "windowsOptions": {"runAsUserName": "ContainerUser", "hostProcess": False},
    }
    return {name: options[name] for name in rng.sample(sorted(options), rng.randrange(1, 4))}


def _make_env(rng: random.Random) -> list[Fields]:
    values: list[Fields] = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": ""},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']", "apiVersion": "v1"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {
            "name": "MEMORY",
            "valueFrom": {
                "resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi", "containerName": "main"}
            },
        },
    ]
    return rng.sample(values, rng.randrange(1, 4))


def _make_probe(rng: random.Random) -> Fields:
    handler: Fields = rng.choice(
        (
            {"httpGet": {"port": 80}},
            {"httpGet": {"port": "http", "path": "/x", "httpHeaders": [{"name": "X-A", "value": "1"}]}},
            {"httpGet": {"port": 80, "scheme": "HTTPS", "host": "h"}},
            {"tcpSocket": {"port": 80}},
            {"tcpSocket": {"port": "http", "host": "h"}},
            {"exec": {"command": ["true"]}},
            {"grpc": {"port": 80}},
            {"grpc": {"port": 80, "service": "s"}},
        )
    )
    options: tuple[Fields, ...] = (
        {},
        {"periodSeconds": 5, "timeoutSeconds": 2},
        {"initialDelaySeconds": 1},
        {"failureThreshold": 1, "successThreshold": 1},
        {"terminationGracePeriodSeconds": 5},
    )
    return {**handler, **rng.choice(options)}


def _make_lifecycle(rng: random.Random) -> Fields:
    handlers: tuple[Fields, ...] = (
        {"exec": {"command": ["x"]}},
        {"httpGet": {"port": 80, "path": "/x"}},
        {"tcpSocket": {"port": 80}},
        {"sleep": {"seconds": 3}},
    )
    hooks = rng.choice((("preStop",), ("postStart",), ("preStop", "postStart")))
    return {**{hook: rng.choice(handlers) for hook in hooks}, **rng.choice(({}, {}, {"stopSignal": "SIGTERM"}))}
