"""Random valid pods."""

from __future__ import annotations

import random
from typing import Any


def make_pod_spec(rng: random.Random) -> dict[str, Any]:
    """Return a random valid spec of a pod."""
    spec: dict[str, Any] = {"containers": [_make_container(rng, "main")]}
    if rng.random() < 0.2:
        spec["containers"].append(_make_container(rng, "second"))
    if rng.random() < 0.2:
        spec["initContainers"] = [{"name": "init", "image": "busybox:1"}]
        if rng.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if rng.random() < 0.5:
        spec |= _make_volumes(rng, spec["containers"][0])
    options = _pod_options(rng)
    for name in rng.sample(sorted(options), rng.choice((0, 0, 1, 1, 2, 3))):
        spec[name] = options[name]
    return spec


def _make_container(rng: random.Random, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": rng.choice(("busybox", "busybox:1", "x@sha256:00"))}
    options = _container_options(rng)
    for option in rng.sample(sorted(options), rng.choice((0, 1, 1, 2, 3))):
        container[option] = options[option]
    return container


def _container_options(rng: random.Random) -> dict[str, Any]:
    return {
        "command": ["true"],
        "args": ["$(A)"],
        "workingDir": "/tmp",
        "env": _make_env(rng),
        "envFrom": [{"configMapRef": {"name": "c", "optional": True}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}],
        "resources": rng.choice(
            (
                {"limits": {"cpu": "1", "memory": "1Gi"}},
                {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}},
                {"requests": {"memory": "1.5Gi", "cpu": 1}},
                {"limits": {"nvidia.com/gpu": 1}},
            )
        ),
        "livenessProbe": _make_probe(rng),
        "readinessProbe": _make_probe(rng),
        "startupProbe": _make_probe(rng),
        "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
        "imagePullPolicy": rng.choice(("Always", "Never", "IfNotPresent")),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": rng.choice(
            (
                {"runAsUser": 1000, "allowPrivilegeEscalation": False},
                {"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "readOnlyRootFilesystem": True},
            )
        ),
        "stdin": True,
    }


def _make_env(rng: random.Random) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": ""},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    return rng.sample(values, rng.randrange(1, 4))


def _make_probe(rng: random.Random) -> dict[str, Any]:
    handler: dict[str, Any] = rng.choice(
        (
            {"httpGet": {"port": 80}},
            {"httpGet": {"port": "http", "path": "/x", "httpHeaders": [{"name": "X-A", "value": "1"}]}},
            {"tcpSocket": {"port": 80}},
            {"exec": {"command": ["true"]}},
            {"grpc": {"port": 80}},
        )
    )
    return {**handler, **rng.choice(({}, {"periodSeconds": 5, "timeoutSeconds": 2}, {"initialDelaySeconds": 1}))}


def _make_volumes(rng: random.Random, container: dict[str, Any]) -> dict[str, Any]:
    sources: list[dict[str, Any]] = [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "p/q"}], "defaultMode": 256}},
        {"secret": {"secretName": "s", "optional": True}},
        {"hostPath": {"path": "/tmp"}},
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"projected": {"sources": [{"configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "t"}}]}},
    ]
    volumes = [{"name": f"v{index}", **rng.choice(sources)} for index in range(rng.randrange(1, 3))]
    container["volumeMounts"] = [
        {"name": volume["name"], "mountPath": f"/mnt/{volume['name']}", **rng.choice(({}, {"subPath": "a"}))}
        for volume in volumes
    ]
    return {"volumes": volumes}


def _pod_options(rng: random.Random) -> dict[str, Any]:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    return {
        "restartPolicy": rng.choice(("Always", "OnFailure", "Never")),
        "terminationGracePeriodSeconds": rng.choice((0, 5)),
        "activeDeadlineSeconds": 100,
        "nodeSelector": {"disk": "ssd"},
        "hostname": "h",
        "subdomain": "s",
        "serviceAccountName": "default",
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "dnsPolicy": rng.choice(("Default", "ClusterFirst")),
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}],
        "hostNetwork": rng.choice((True, False)),
        "securityContext": {"runAsUser": 1, "fsGroup": 2, "runAsNonRoot": True},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [expression]}]
                }
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
        "imagePullSecrets": [{"name": "s"}],
        "nodeName": "n1",
        "schedulerName": "mine",
        "shareProcessNamespace": True,
        "enableServiceLinks": False,
        "readinessGates": [{"conditionType": "example.org/ready"}],
        "priorityClassName": rng.choice(("system-node-critical", "none")),
    }
