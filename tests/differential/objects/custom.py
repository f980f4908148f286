"""A CRD with most features of structural schemas, and random objects of it."""

from __future__ import annotations

import random
from typing import Any

GADGETS_PATH = "/apis/example.org/v1/gadgets"
_PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]},
    },
}


def _gadget_schema() -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 100, "format": "int32"},
            "replicas": {"type": "integer", "minimum": 0},
            "colour": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$", "maxLength": 8, "minLength": 4},
            "ratio": {"type": "number", "exclusiveMaximum": True, "maximum": 1},
            "even": {"type": "integer", "multipleOf": 2},
            "enabled": {"type": "boolean"},
            "email": {"type": "string", "format": "email"},
            "when": {"type": "string", "format": "date-time", "nullable": True},
            "blob": {"type": "string", "format": "byte"},
            "percent": {"x-kubernetes-int-or-string": True},
            "quantity": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+(m|Mi)?$"},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 4},
            "ports": {
                "type": "array",
                "items": _PORT,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "steps": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            "settings": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
            "options": {
                "type": "object",
                "default": {},
                "properties": {
                    "depth": {"type": "integer", "default": 3},
                    "mode": {"type": "string", "nullable": True, "default": "slow"},
                },
            },
            "atom": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "choice": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
        },
    }
    status = {
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "replicas": {"type": "integer"},
            "selector": {"type": "string"},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                },
            },
        },
    }
    return {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}


def gadget_crd(group: str = "example.org") -> dict[str, Any]:
    """Return a CRD with two served versions, one that is not served, status and scale, and printer columns."""
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "the size"}
    wide = {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _gadget_schema()},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [column, wide],
        "selectableFields": [{"jsonPath": ".spec.colour"}],
    }
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]}
    versions = [
        version,
        {**version, "name": "v1beta1", "storage": False},
        {**version, "name": "v1alpha1", "storage": False, "served": False},
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


def make_gadget_spec(rng: random.Random) -> dict[str, Any]:
    """Return a random valid spec."""
    choices: dict[str, Any] = {
        "replicas": rng.randrange(4),
        "colour": rng.choice(("red", "green", "blue")),
        "code": rng.choice(("AB-1", "XY-12345")),
        "ratio": rng.choice((0.25, 0, -1, 0.5)),
        "even": rng.choice((0, 2, -4)),
        "enabled": rng.choice((True, False)),
        "when": rng.choice(("2030-01-01T00:00:00Z", None)),
        "blob": "aGVsbG8=",
        "percent": rng.choice((5, "5%")),
        "quantity": rng.choice((100, "100m")),
        "tags": rng.sample(["a", "b", "c", "d"], rng.randrange(4)),
        "ports": [{"port": port, "name": f"n{port}"} for port in rng.sample([80, 81, 443], rng.randrange(1, 3))],
        "steps": ["one", "two"][: rng.randrange(1, 3)],
        "settings": {key: rng.choice("12") for key in rng.sample("abc", rng.randrange(3))},
        "options": rng.choice(({}, {"depth": 5}, {"mode": None}, {"mode": "fast"})),
        "atom": {key: rng.choice("12") for key in rng.sample("xy", rng.randrange(1, 3))},
        "free": {"anything": {"goes": [1, None, "x"]}},
        "choice": rng.choice(({"a": "1"}, {"b": "2"})),
    }
    chosen = rng.sample(sorted(choices), rng.randrange(6))
    return {"size": rng.randrange(101), **{name: choices[name] for name in chosen}}


def make_gadget_status(rng: random.Random) -> dict[str, Any]:
    """Return a random valid status."""
    conditions = [{"type": name, "status": rng.choice(("True", "False"))} for name in rng.sample(["A", "B"], 1)]
    return {"phase": rng.choice(("Running", "Failed")), "replicas": rng.randrange(3), "conditions": conditions}
