"""Defaults and validation rules that Kubernetes has in code and not in the published schemas."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.schema.metadata import DNS_LABEL

_PORT_RANGE: Final = {"minimum": 1, "maximum": 65535}
_PROTOCOL: Final = {"default": "TCP", "enum": ["TCP", "UDP", "SCTP"]}
_DNS_LABEL_RULE: Final = {"pattern": f"^{DNS_LABEL.pattern.pattern}$", "maxLength": DNS_LABEL.max_length}
_PREEMPTION_POLICY: Final = {"enum": ["Never", "PreemptLowerPriority"]}
_BUDGET_STATUS_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_ATOMIC_LIST: Final = {"x-kubernetes-list-type": "atomic"}
"""For lists that Kubernetes merges by key but in which it allows duplicate keys."""

_PROBE_RULES: Final[dict[str, dict[str, Any]]] = {
    "failureThreshold": {"default": 3, "minimum": 1},
    "periodSeconds": {"default": 10, "minimum": 1},
    "successThreshold": {"default": 1, "minimum": 1},
    "timeoutSeconds": {"default": 1, "minimum": 1},
    "initialDelaySeconds": {"minimum": 0},
    "httpGet.path": {"default": "/"},
    "httpGet.scheme": {"default": "HTTP", "enum": ["HTTP", "HTTPS"]},
}

_HTTP_GET_FIELDS: Final = ("httpGet.path", "httpGet.scheme")

_CONTAINER_RULES: Final[dict[str, dict[str, Any]]] = {
    "name": _DNS_LABEL_RULE,
    "env": _ATOMIC_LIST,
    "env[].name": {"minLength": 1},
    "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "ports": _ATOMIC_LIST,
    "ports[].containerPort": _PORT_RANGE,
    "ports[].protocol": _PROTOCOL,
    "resources": {"default": {}},
    "terminationMessagePath": {"default": "/dev/termination-log"},
    "terminationMessagePolicy": {"default": "File", "enum": ["File", "FallbackToLogsOnError"]},
    "volumeMounts[].mountPath": {"minLength": 1},
    **{
        f"{probe}.{path}": keywords
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for path, keywords in _PROBE_RULES.items()
    },
    **{
        f"lifecycle.{hook}.{path}": _PROBE_RULES[path] for hook in ("postStart", "preStop") for path in _HTTP_GET_FIELDS
    },
}


def _pod_container_rules() -> dict[str, dict[str, Any]]:
    return {
        f"spec.{group}[].{path}": keywords
        for group in ("containers", "initContainers")
        for path, keywords in _CONTAINER_RULES.items()
    }


SCHEMA_RULES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "PersistentVolumeClaim": {"spec.volumeMode": {"default": "Filesystem", "enum": ["Block", "Filesystem"]}},
    "Pod": {
        "spec.dnsPolicy": {
            "default": "ClusterFirst",
            "enum": ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        },
        "spec.enableServiceLinks": {"default": True},
        "spec.preemptionPolicy": _PREEMPTION_POLICY,
        "spec.restartPolicy": {"default": "Always", "enum": ["Always", "OnFailure", "Never"]},
        "spec.schedulerName": {"default": "default-scheduler"},
        "spec.securityContext": {"default": {}},
        "spec.serviceAccountName": {"default": "default"},
        "spec.terminationGracePeriodSeconds": {"default": 30, "minimum": 0},
        "spec.activeDeadlineSeconds": {"minimum": 1},
        "spec.volumes[].name": _DNS_LABEL_RULE,
        **_pod_container_rules(),
    },
    "Service": {
        "spec.internalTrafficPolicy": {"default": "Cluster", "enum": ["Cluster", "Local"]},
        "spec.ports[].port": _PORT_RANGE,
        "spec.ports[].protocol": _PROTOCOL,
        "spec.sessionAffinity": {"default": "None", "enum": ["None", "ClientIP"]},
        "spec.type": {"default": "ClusterIP", "enum": ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]},
    },
    "Namespace": {"spec": {"default": {"finalizers": ["kubernetes"]}}, "status": {"default": {"phase": "Active"}}},
    "Secret": {"type": {"default": "Opaque"}},
    "PriorityClass": {"preemptionPolicy": _PREEMPTION_POLICY},
    "PodDisruptionBudget": {"status": {"default": dict.fromkeys(_BUDGET_STATUS_COUNTS, 0)}},
    "Lease": {"spec.leaseDurationSeconds": {"minimum": 1}},
    "CustomResourceDefinition": {"spec.scope": {"enum": ["Cluster", "Namespaced"]}},
}
"""Keywords to add to the published schema, by kind and path; `[]` stands for the items of a list."""
