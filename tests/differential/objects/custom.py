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


_TEXT = {"type": "string"}
_MORE_KEYWORDS: dict[str, Any] = {
    "uri": {"type": "string", "format": "uri"},
    "host": {"type": "string", "format": "hostname"},
    "address": {"type": "string", "format": "ipv4"},
    "network": {"type": "string", "format": "cidr"},
    "uuid": {"type": "string", "format": "uuid"},
    "day": {"type": "string", "format": "date"},
    "wait": {"type": "string", "format": "duration"},
    "mac": {"type": "string", "format": "mac"},
    "letters": {"type": "string", "pattern": r"^\p{L}+$", "maxLength": 5},
    "big": {"type": "integer", "format": "int64"},
    "level": {"type": "integer", "enum": [1, 2, 3], "default": 1},
    "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "multipleOf": 0.5},
    "kept": {"x-kubernetes-preserve-unknown-fields": True},
    "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
    "limits": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "type": "object",
            "required": ["max"],
            "properties": {"max": {"type": "integer", "default": 5}, "unit": {"type": "string", "nullable": True}},
        },
    },
    "maybe": {"type": "object", "nullable": True, "properties": {"x": {"type": "integer", "default": 7}}},
    "owners": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"name": _TEXT, "role": _TEXT}},
    },
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    },
    "range": {
        "type": "object",
        "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.low <= self.high", "message": "low above high", "fieldPath": ".low"},
            {"rule": "self.high <= 10", "messageExpression": "self.high > 20 ? 'far too high' : 'too high'"},
        ],
    },
    "fixed": {
        "type": "string",
        "maxLength": 20,
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "reason": "FieldValueForbidden"},
            {"rule": "!oldSelf.hasValue() || self.size() >= oldSelf.value().size()", "optionalOldSelf": True},
        ],
    },
    "mixed": {
        "type": "object",
        "properties": {"a": _TEXT, "b": {"type": "integer"}},
        "allOf": [{"properties": {"a": {"minLength": 2}}}],
        "anyOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 5}}}],
        "not": {"required": ["c"]},
    },
}


def _gadget_schema() -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            **_MORE_KEYWORDS,
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
    more = [
        {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "format": "double"},
        {"name": "Enabled", "type": "boolean", "jsonPath": ".spec.enabled"},
        {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[*].port", "priority": 2},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="A")].status'},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.percent"},
    ]
    wide = {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _gadget_schema()},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [column, wide, *more],
        "selectableFields": [{"jsonPath": f".spec.{name}"} for name in ("colour", "enabled", "level", "host")],
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
    choices |= _more_choices(rng)
    chosen = rng.sample(sorted(choices), rng.randrange(7))
    return {"size": rng.randrange(101), **{name: choices[name] for name in chosen}}


def _more_choices(rng: random.Random) -> dict[str, Any]:
    return {
        "uri": rng.choice(("https://example.org/x", "/path", "nonsense")),
        "host": rng.choice(("example.org", "a_b", "x")),
        "address": rng.choice(("10.0.0.1", "10.0.0.256", "::1")),
        "network": rng.choice(("10.0.0.0/8", "10.0.0.1/33", "fe80::/64")),
        "uuid": rng.choice(("123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "123")),
        "day": rng.choice(("2030-01-01", "2030-13-01", "20300101")),
        "wait": rng.choice(("5s", "1h30m", "5", "3 days", "-1s")),
        "mac": rng.choice(("01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "x")),
        "letters": rng.choice(("äb", "a1", "abcdef")),
        "big": rng.choice((2**40, -(2**63), 1.0)),
        "level": rng.choice((1, 2, 3, 4, 2.0)),
        "weight": rng.choice((0.5, 1, 0, 0.3)),
        "kept": rng.choice(({"a": None}, [1, None], "x", 5, {"metadata": {"x": 1}})),
        "matrix": rng.choice(([[1, 2], [3]], [], [[]], [[1, 2, 3]], [["x"]])),
        "limits": rng.choice(({"cpu": {}}, {"cpu": {"max": 1, "unit": None}}, {}, {"a": {"max": "x"}, "b": {}})),
        "maybe": rng.choice((None, {}, {"x": 1}, {"x": None})),
        "owners": rng.choice(([{"name": "a"}], [{"name": "a"}, {"name": "a", "role": "x"}], [{"name": "a"}] * 2)),
        "template": rng.choice(
            (
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"x": 1, "y": 2}},
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}},
                {"apiVersion": "a/b/c", "kind": "", "metadata": {"unknown": 1, "labels": {"a": 5}}},
                {"kind": "Bad Kind", "spec": {"x": "1"}},
                {},
            )
        ),
        "range": rng.choice(({"low": 1, "high": 5}, {"low": 6, "high": 5}, {"low": 1, "high": 11}, {"low": 1}, {})),
        "fixed": rng.choice(("a", "bb", "ccc")),
        "mixed": rng.choice(({"a": "xx"}, {"b": 5}, {"a": "x"}, {"b": 1}, {}, {"c": 1, "b": 7})),
    }


def make_gadget_status(rng: random.Random) -> dict[str, Any]:
    """Return a random valid status."""
    conditions = [{"type": name, "status": rng.choice(("True", "False"))} for name in rng.sample(["A", "B"], 1)]
    return {"phase": rng.choice(("Running", "Failed")), "replicas": rng.randrange(3), "conditions": conditions}
