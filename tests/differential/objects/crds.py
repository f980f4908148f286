"""Random CRDs: names, versions, columns, subresources, and schemas with every keyword."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.differential.objects.custom import gadget_crd
from tests.differential.steps import RUN

Fields = dict[str, Any]

_KEYWORDS: tuple[Fields, ...] = (
    {"type": "string"},
    {"type": "null"},
    {"type": "text"},
    {"format": "int64"},
    {"format": "strange"},
    {"title": "t"},
    {"default": 1},
    {"default": "red"},
    {"default": {}},
    {"default": {"unknown": 1}},
    {"default": []},
    {"default": None},
    {"minimum": 1.5},
    {"maximum": 10, "exclusiveMaximum": True},
    {"multipleOf": 2},
    {"minLength": 1},
    {"maxLength": 5},
    {"maxLength": -1},
    {"pattern": "^[a-z]+$"},
    {"pattern": "("},
    {"pattern": "a(?=b)"},
    {"pattern": r"\d+\p{L}"},
    {"minItems": 1},
    {"uniqueItems": True},
    {"uniqueItems": False},
    {"maxProperties": 2},
    {"minProperties": 1},
    {"required": ["a", "b"]},
    {"enum": ["a", 1, None, {"x": 1}]},
    {"enum": []},
    {"nullable": True},
    {"items": {"type": "string"}},
    {"items": [{"type": "string"}]},
    {"items": {}},
    {"items": {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}}},
    {"additionalProperties": True},
    {"additionalProperties": False},
    {"additionalProperties": {"type": "integer"}},
    {"additionalProperties": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}},
    {"additionalProperties": {}},
    {"properties": {"metadata": {"type": "object"}, "kind": {"type": "string"}}},
    {"properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}},
    {"properties": {"a": {}}},
    {"allOf": [{"required": ["a"]}]},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    {"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}]},
    {"oneOf": [{"properties": {"a": {"minLength": 1}}}]},
    {"oneOf": [{"properties": {"a": {"type": "string"}}, "description": "d"}]},
    {"not": {"properties": {"size": {"minimum": 1, "default": 5}}}},
    {"not": {"items": {"minLength": 1}}},
    {"not": {"additionalProperties": {"minLength": 1}}},
    {"not": {"pattern": "["}},
    {"$ref": "#/x"},
    {"$schema": "x"},
    {"id": "x"},
    {"definitions": {"a": {"type": "string"}}},
    {"dependencies": {"a": ["b"]}},
    {"patternProperties": {"a": {"type": "string"}}},
    {"additionalItems": True},
    {"externalDocs": {"url": "x"}},
    {"example": {"a": 1}},
    {"x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-preserve-unknown-fields": False},
    {"x-kubernetes-int-or-string": True},
    {"x-kubernetes-embedded-resource": True},
    {"x-kubernetes-embedded-resource": True, "type": "object", "x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-list-type": "set"},
    {"x-kubernetes-list-type": "map"},
    {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
    {"x-kubernetes-list-type": "heap"},
    {"x-kubernetes-list-map-keys": ["port", "port"]},
    {"x-kubernetes-list-map-keys": ["name"]},
    {"x-kubernetes-map-type": "atomic"},
    {"x-kubernetes-map-type": "granular"},
    {"x-kubernetes-map-type": "other"},
    {"unknown": 1},
)
_RULES: tuple[Fields, ...] = (
    {"rule": "true"},
    {"rule": "self == oldSelf"},
    {"rule": "self == oldSelf", "optionalOldSelf": True},
    {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": True},
    {"rule": "true", "optionalOldSelf": True},
    {"rule": "self.size > 1"},
    {"rule": "self.size > 1", "fieldPath": ".size"},
    {"rule": "has(self.size)", "fieldPath": ".nowhere", "reason": "FieldValueForbidden"},
    {"rule": "has(self.colour)", "fieldPath": "['colour']", "reason": "FieldValueRequired"},
    {"rule": "true", "reason": "Sometimes"},
    {"rule": "true", "fieldPath": " "},
    {"rule": "size(self) < 5"},
    {"rule": "1"},
    {"rule": "self.unknown == 1"},
    {"rule": "self +"},
    {"rule": ""},
    {"rule": "  "},
    {"rule": "true\n&& true"},
    {"rule": "true\n&& true", "message": "two lines"},
    {"rule": "true", "message": "two\nlines"},
    {"rule": "true", "message": "  "},
    {"rule": "true", "messageExpression": "'text'"},
    {"rule": "true", "messageExpression": "1"},
    {"rule": "true", "messageExpression": "'a' +"},
    {"rule": "true", "messageExpression": " "},
    {"rule": "self.all(x, self.all(y, x != y))"},
    {"rule": "self.matches('[')"},
    {"rule": "self.tags.all(t, self.tags.all(u, self.tags.all(v, t != u || u != v)))"},
    {},
)
_COLUMNS: tuple[Fields, ...] = (
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Wide", "type": "string", "jsonPath": ".spec.colour", "priority": 1, "format": "password"},
    {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "when"},
    {"name": "Odd", "type": "number", "jsonPath": ".spec.list[", "priority": -1},
    {"name": "Bad", "type": "string", "jsonPath": "spec.size"},
    {"name": "Empty", "type": "boolean", "jsonPath": "", "format": "int64"},
    {"name": "", "type": "", "jsonPath": "."},
    {"name": "X", "type": "text", "jsonPath": ".a..b", "format": "strange"},
    {"name": "Y", "type": "string"},
)
_SCALES: tuple[Fields, ...] = (
    {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".spec.x"},
    {"specReplicasPath": ".replicas", "statusReplicasPath": ".spec.replicas", "labelSelectorPath": ".x"},
    {"specReplicasPath": "spec.replicas", "statusReplicasPath": "", "labelSelectorPath": "status"},
    {"statusReplicasPath": ".status.list[0]"},
    {},
)
_SELECTABLE: tuple[Fields, ...] = (
    {"jsonPath": ".spec.colour"},
    {"jsonPath": ".spec.size"},
    {"jsonPath": ".spec.enabled"},
    {"jsonPath": ".spec.ratio"},
    {"jsonPath": ".spec.ports"},
    {"jsonPath": ".spec.nowhere"},
    {"jsonPath": ".metadata.name"},
    {"jsonPath": "spec.colour"},
    {"jsonPath": ".spec['colour']"},
    {"jsonPath": ".spec."},
    {"jsonPath": ""},
    {},
)
_NAMES: tuple[Fields, ...] = (
    {"shortNames": ["gd", "g2"]},
    {"shortNames": ["Bad"]},
    {"shortNames": ["po"], "categories": ["all", "Not This"]},
    {"kind": "gadget", "listKind": "gadget"},
    {"kind": "Bad_Kind"},
    {"singular": "Gadget"},
    {"listKind": "Gadgets"},
    {"plural": "Gadgets"},
    {"kind": ""},
    {"singular": "", "shortNames": [""]},
)
_VERSION_NAMES = ("v1", "v2", "v1beta1", "v1alpha1", "v1", "1v", "V1", "a.b", "")
_CONVERSIONS: tuple[Any, ...] = (
    {"strategy": "None"},
    {},
    {"strategy": "Webhook"},
    {"strategy": "Other"},
    {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
    {"strategy": "None", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]}},
    {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
    {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": []}},
    None,
)


def make_new_crd(rng: random.Random) -> Fields:
    """Return the fields of a CRD that is not installed."""
    return {"spec": _make_spec(rng, f"{RUN}.example.org")}


def make_installed_crd(rng: random.Random) -> Fields:
    """Return the fields of a change of the CRD of the gadgets."""
    return {"spec": _make_spec(rng, "example.org")}


def make_crd_status(rng: random.Random) -> Fields:
    """Return a status that a client may send."""
    condition = {"type": "Example", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    return rng.choice(
        (
            {"storedVersions": ["v1"]},
            {"storedVersions": ["v1", "v0"]},
            {"storedVersions": []},
            {"conditions": [{**condition, "reason": "Because", "message": "text"}]},
            {"acceptedNames": {"plural": "gadgets", "kind": "Gadget"}},
            {"acceptedNames": {"plural": "Bad Name", "kind": "Gadget"}},
        )
    )


def _make_spec(rng: random.Random, group: str) -> Fields:
    spec: Fields = copy.deepcopy(gadget_crd(group)["spec"])
    spec["versions"] = spec["versions"][: rng.randrange(1, 4)]
    for change in rng.choices((_change_names, _change_version, _change_version, _change_spec), k=rng.randrange(3)):
        change(rng, spec)
    is_same, has_changed_schema = rng.random() < 0.6, False
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        seed, has_changed_schema = rng.random(), rng.random() < 0.9
        for version in spec["versions"] if is_same else spec["versions"][:1]:
            _change_schema(random.Random(seed), version)
    for version in spec["versions"]:
        # kube-apiserver panics if there is no schema, or one with unsupported keywords.
        if version.get("schema") == {} or has_changed_schema:
            version.pop("selectableFields", None)
    return spec


def _change_names(rng: random.Random, spec: Fields) -> None:
    spec["names"] = {**spec["names"], **copy.deepcopy(rng.choice(_NAMES))}


def _change_spec(rng: random.Random, spec: Fields) -> None:
    changes: tuple[Fields, ...] = (
        {"scope": rng.choice(("Cluster", "Everywhere", ""))},
        {"group": rng.choice(("example", "Bad.Group", "x.k8s.io", ""))},
        {"preserveUnknownFields": rng.choice((True, False))},
        {"conversion": copy.deepcopy(rng.choice(_CONVERSIONS))},
        {"versions": []},
        {"versions": spec["versions"][::-1]},
        {"versions": spec["versions"][1:]},
    )
    spec.update(rng.choice(changes))


def _change_version(rng: random.Random, spec: Fields) -> None:
    changes: tuple[Fields, ...] = (
        {"name": rng.choice(_VERSION_NAMES)},
        {"storage": rng.choice((True, False))},
        {"served": rng.choice((True, False))},
        {"deprecated": rng.choice((True, False)), "deprecationWarning": rng.choice(("old", "", "x" * 300, "a\tb"))},
        {"schema": rng.choice((None, {}, {"openAPIV3Schema": {}}, {"openAPIV3Schema": {"type": "object"}}))},
        {"subresources": rng.choice(({}, None, {"status": {}}))},
        {"subresources": {"scale": copy.deepcopy(rng.choice(_SCALES))}},
        {"subresources": {"scale": copy.deepcopy(rng.choice(_SCALES)), "status": {}}},
        {"additionalPrinterColumns": copy.deepcopy(rng.sample(_COLUMNS, rng.randrange(3)))},
        {"additionalPrinterColumns": copy.deepcopy(rng.sample(_COLUMNS, rng.randrange(3)))},
        {"selectableFields": copy.deepcopy(rng.choices(_SELECTABLE, k=rng.choice((0, 1, 2, 12))))},
    )
    change = rng.choice(changes)
    versions = spec["versions"] if rng.random() < 0.4 else [rng.choice(spec["versions"])] if spec["versions"] else []
    for version in versions:
        version.update(copy.deepcopy(change))


def _change_schema(rng: random.Random, version: Fields) -> None:
    """Add keywords or a rule to a random part of the schema of a version."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return
    nodes = list(_iterate_nodes(schema))
    node = rng.choice(nodes) if rng.random() < 0.85 else schema
    if rng.random() < 0.3:
        node["x-kubernetes-validations"] = copy.deepcopy(rng.choices(_RULES, k=rng.choice((1, 1, 2))))
        return
    change = copy.deepcopy(rng.choice(_KEYWORDS))
    if "properties" in change and rng.random() < 0.7:
        change["properties"] = {**node.get("properties", {}), **change["properties"]}
    node.update(change)
    if rng.random() < 0.15 and len(node) > 1:
        del node[rng.choice(sorted(node))]


def _iterate_nodes(schema: Any) -> Iterator[Fields]:
    if not isinstance(schema, dict):
        return
    yield schema
    for child in (schema.get("properties") or {}).values():
        yield from _iterate_nodes(child)
    for keyword in ("items", "additionalProperties"):
        yield from _iterate_nodes(schema.get(keyword))
