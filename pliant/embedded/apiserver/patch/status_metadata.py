"""The metadata that a write of a status also writes, as on Kubernetes."""

from __future__ import annotations

_METADATA = ("generateName", "labels", "annotations", "finalizers", "ownerReferences")
WRITABLE_BY_STATUS = {
    "/pods": ("generateName", "labels", "annotations", "finalizers"),
    "/resourcequotas": _METADATA,
    "/services": _METADATA,
    "/persistentvolumeclaims": _METADATA,
    "/namespaces": _METADATA,
    "apiextensions.k8s.io/customresourcedefinitions": _METADATA,
    "policy/poddisruptionbudgets": _METADATA,
    "apps/deployments": tuple(field for field in _METADATA if field != "labels"),
    "apps/replicasets": _METADATA,
    "batch/jobs": _METADATA,
}
