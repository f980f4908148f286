"""A small but complete CRD for tests."""

from __future__ import annotations

from typing import Any


def make_crd(**changes: Any) -> dict[str, Any]:
    """A CRD with columns, status, scale and two versions; `changes` replace members of its spec."""
    count = {"type": "integer", "minimum": 0}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["replicas"],
                "properties": {
                    "replicas": count | {"default": 1},
                    "policy": {"type": "string", "enum": ["All", "None"], "default": "None"},
                    "env": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    columns = [
        {"name": "State", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    newest = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": ".spec.policy"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    older = {"name": "v1beta1", "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    unserved = {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "jobs", "singular": "job", "kind": "Job", "shortNames": ["jb"], "categories": ["all"]},
        "versions": [older, newest, unserved],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.example.org"},
        "spec": spec | changes,
    }
