"""Keywords that pods, and templates of pods, add to the published schema: rules that Kubernetes has only in code."""

from __future__ import annotations

from typing import Final

from pliant.embedded.registry.schema_rules import SchemaRules

PORT_RANGE: Final = {"minimum": 1, "maximum": 65535}
PROTOCOL: Final = {"default": "TCP", "enum": ["TCP", "UDP", "SCTP"]}
PREEMPTION_POLICY: Final = {"enum": ["Never", "PreemptLowerPriority"]}
"""For lists that Kubernetes merges by key but in which it allows duplicate keys."""

_V1: Final = {"default": "v1"}
_DEFAULT_FILE_MODE: Final = {"default": 0o644}

_PROBE_RULES: Final[SchemaRules] = {
    "failureThreshold": {"default": 3, "minimum": 1},
    "periodSeconds": {"default": 10, "minimum": 1},
    "successThreshold": {"default": 1, "minimum": 1},
    "timeoutSeconds": {"default": 1, "minimum": 1},
    "initialDelaySeconds": {"minimum": 0},
    "httpGet.path": {"default": "/"},
    "grpc.service": {"default": ""},
    "httpGet.scheme": {"default": "HTTP", "enum": ["HTTP", "HTTPS"]},
}

_HTTP_GET_FIELDS: Final = ("httpGet.path", "httpGet.scheme")

_CONTAINER_RULES: Final[SchemaRules] = {
    "env[].name": {"minLength": 1},
    "env[].valueFrom.fieldRef.apiVersion": _V1,
    "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "ports[].containerPort": PORT_RANGE,
    "ports[].protocol": PROTOCOL,
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

_VOLUME_RULES: Final[SchemaRules] = {
    **{f"{source}.defaultMode": _DEFAULT_FILE_MODE for source in ("configMap", "downwardAPI", "projected", "secret")},
    "downwardAPI.items[].fieldRef.apiVersion": _V1,
    "hostPath.type": {"default": ""},
    "projected.sources": {"nullable": True},  # as it is stored if there are none
    "projected.sources[].downwardAPI.items[].fieldRef.apiVersion": _V1,
    "projected.sources[].serviceAccountToken.expirationSeconds": {"default": 3600},
}


def pod_spec_rules(spec_path: str) -> SchemaRules:
    """Return the rules of the pod spec at a path, `spec` or `spec.template.spec`."""
    rules: SchemaRules = {
        "dnsPolicy": {
            "default": "ClusterFirst",
            "enum": ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        },
        "preemptionPolicy": PREEMPTION_POLICY,
        "restartPolicy": {"default": "Always", "enum": ["Always", "OnFailure", "Never"]},
        "schedulerName": {"default": "default-scheduler"},
        "securityContext": {"default": {}},
        "terminationGracePeriodSeconds": {"default": 30},  # pods get 1 instead of a negative number
        "activeDeadlineSeconds": {"minimum": 1, "maximum": 2**31 - 1},
        **{f"volumes[].{path}": keywords for path, keywords in _VOLUME_RULES.items()},
    }
    for group in ("containers", "initContainers", "ephemeralContainers"):
        rules |= {f"{group}[].{path}": keywords for path, keywords in _CONTAINER_RULES.items()}
    return {f"{spec_path}.{path}": keywords for path, keywords in rules.items()}
