"""An object of each built-in kind that a fresh cluster does not have, with fields of many types."""

from __future__ import annotations

from typing import Any

from pliant.kube.resources import Resource

_ADMISSION = "admissionregistration.k8s.io"
_LABELS = {"app": "served"}
_POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Never",
    "tolerations": [{"operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}],
    "volumes": [
        {"name": "config", "configMap": {"name": "served", "optional": True, "defaultMode": 420}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "10Mi"}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                ]
            },
        },
    ],
    "containers": [
        {
            "name": "main",
            "image": "busybox",
            "command": ["sh", "-c", "exit 0"],
            "env": [
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "EMPTY", "value": ""},
            ],
            "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 3},
            "ports": [{"name": "web", "containerPort": 8080}],
            "securityContext": {"runAsNonRoot": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": {**_POD_SPEC, "restartPolicy": "Always"}}
_SELECTOR = {"matchLabels": _LABELS}


def _named(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "served", "labels": _LABELS, "annotations": {"note": "ünï"}}, **fields}


_KINDS: list[tuple[Resource, dict[str, Any]]] = [
    (Resource("", "v1", "configmaps", "ConfigMap"), _named(data={"a": "1"}, binaryData={"b": "AAH/"}, immutable=True)),
    (Resource("", "v1", "secrets", "Secret"), _named(data={"a": "AAH/"}, type="Opaque")),
    (
        Resource("", "v1", "services", "Service"),
        _named(spec={"selector": _LABELS, "ports": [{"name": "web", "port": 80, "targetPort": "web"}]}),
    ),
    (
        Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        _named(spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}),
    ),
    (Resource("", "v1", "pods", "Pod"), _named(spec={**_POD_SPEC, "activeDeadlineSeconds": 300})),
    (Resource("", "v1", "resourcequotas", "ResourceQuota"), _named(spec={"hard": {"pods": "100", "limits.cpu": "50"}})),
    (
        Resource("", "v1", "limitranges", "LimitRange"),
        _named(spec={"limits": [{"type": "Container", "default": {"cpu": "200m"}, "max": {"cpu": "20"}}]}),
    ),
    (
        Resource("coordination.k8s.io", "v1", "leases", "Lease"),
        _named(spec={"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000001Z"}),
    ),
    (
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        _named(spec={"minAvailable": "50%", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
    ),
    (
        Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"),
        _named(rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    ),
    (
        Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
        _named(
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "served"},
            subjects=[{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
        ),
    ),
    (
        Resource("apps", "v1", "deployments", "Deployment"),
        _named(spec={"replicas": 0, "selector": _SELECTOR, "template": _TEMPLATE}),
    ),
    (
        Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
        _named(revision=1, data={"spec": {"template": {"any": ["thing", 1, None]}}}),
    ),
    (
        Resource("batch", "v1", "jobs", "Job"),
        _named(spec={"suspend": True, "completions": 2, "template": {"spec": _POD_SPEC}}),
    ),
]
_CLUSTER_KINDS: list[tuple[Resource, dict[str, Any]]] = [
    (
        Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
        _named(value=-5, globalDefault=False, preemptionPolicy="Never"),
    ),
    (
        Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
        _named(
            spec={
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["endpoints"]}
                    ]
                },
                "validations": [{"expression": "object.metadata.name != 'x'", "message": "not x"}],
            }
        ),
    ),
    (
        Resource(
            _ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
        ),
        _named(spec={"policyName": "served", "validationActions": ["Audit"]}),
    ),
]

OBJECTS: list[tuple[Resource, str | None, dict[str, Any]]] = [
    (resource, namespace, {"apiVersion": resource.api_version, "kind": resource.kind, **fields})
    for namespace, kinds in (("default", _KINDS), (None, _CLUSTER_KINDS))
    for resource, fields in kinds
]
"""Resources, namespaces and manifests."""
