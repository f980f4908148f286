"""Sequences about CRDs, policies and custom objects that the campaign found; the differences are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH
from tests.differential.steps import WATCH, Step

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_INSTALLED = f"{_CRDS}/gadgets.example.org"
_GADGETS = "/apis/example.org/v1/namespaces/{run}-a/gadgets"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_DRY = {"dryRun": "All"}
_CHANGES = {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
_ONE = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {"size": 1}}


_FRACTIONAL_LIMITS: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"type": "integer", "minimum": 1.5}, 7),
    ({"type": "integer", "maximum": 10.5, "format": "int32"}, 7),
    ({"type": "integer", "multipleOf": 3.5}, 7),
    ({"type": "number", "minimum": 1.5}, 7),
    ({"type": "array", "items": {"type": "integer", "minimum": 1.5}}, [7]),
    ({"type": "object", "properties": {"b": {"type": "integer", "minimum": 1.5}}}, {"b": 7}),
    ({"type": "object", "properties": {"b": {"type": "integer", "minimum": 1.5}}}, {}),
)
_EMPTY_DEPENDENCIES: dict[str, Any] = {"type": "string", "dependencies": {}}
_EMPTY_KEYWORDS: tuple[dict[str, Any], ...] = (
    {"properties": {"a": _EMPTY_DEPENDENCIES}},
    {"properties": {"a": {"type": "string", "definitions": {}}}},
    {"properties": {"a": {"type": "array", "items": _EMPTY_DEPENDENCIES}}},
    {"properties": {"a": {"not": _EMPTY_DEPENDENCIES, "anyOf": [_EMPTY_DEPENDENCIES]}}},
    {"additionalProperties": _EMPTY_DEPENDENCIES},
)
_STRUCTURAL_AND_NOT: tuple[dict[str, Any], ...] = (
    {},
    {"type": "object"},
    {"dependencies": {"a": []}},
    {"type": "object", "$ref": "x"},
)
_SUBRESOURCES: tuple[dict[str, Any], ...] = ({}, {"status": {}})


def _create(*schemas: Any, **version: Any) -> Step:
    versions = [
        {"name": f"v{index}", "schema": {"openAPIV3Schema": each}, **version} for index, each in enumerate(schemas)
    ]
    return Step("POST", _CRDS, {"spec": {"versions": versions}}, query=_DRY)


def _schema(**keywords: Any) -> Step:
    return _create({"type": "object", "properties": {"a": {"type": "string", **keywords}}})


def _policy(**spec: Any) -> Step:
    return Step("POST", _POLICIES, {"metadata": {"name": "{run}-one"}, "spec": spec}, query=_DRY)


def _gadget(**spec: Any) -> Step:
    return Step("POST", _GADGETS, {**_ONE, "spec": {"size": 1, **spec}}, query=_DRY)


def _apply(**spec: Any) -> Step:
    body = {**_ONE, "spec": {"size": 1, **spec}}
    return Step("PATCH", f"{_GADGETS}/one", body, query={"fieldManager": "ada"}, media=APPLY_PATCH)


def _apply_schema(**keywords: Any) -> Step:
    name = "things.{run}.example.org"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": keywords}}
    spec = {"group": "{run}.example.org", "scope": "Cluster", "names": {"plural": "things"}, "versions": [version]}
    typed = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    body = {**typed, "metadata": {"name": name}, "spec": spec}
    return Step("PATCH", f"{_CRDS}/{name}", body, query={"fieldManager": "ada", **_DRY}, media=APPLY_PATCH)


def _scale(patch: Any) -> Step:
    return Step("PATCH", f"{_GADGETS}/one/scale", patch, media=MERGE_PATCH)


SEQUENCES: dict[str, list[Step]] = {
    "schemas of CRDs have all of their errors": [
        _schema(pattern="a(?=b)"),
        _schema(pattern=r"\\p{L}"),
        _schema(default={"unknown": 1}),
        _schema(type="null", default="x"),
        _schema(type="integer", default=2**63),
        _schema(type="integer", default=1.5),
        _schema(type="integer", default="red", pattern="^x$"),
        _schema(type="boolean", default=[1], minItems=3),
        _schema(type="integer", default=1, minimum=1.5, enum=[1, 2]),
        _schema(type="array", items={"type": "integer", "multipleOf": 2}, default=[1, 2], enum=[[1, 2]]),
        _create({"type": "object", "x-kubernetes-map-type": "other", "properties": {"a": _CHANGES}}),
        _create({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _CHANGES}}),
        _schema(type="array", items=[{"type": "string"}], uniqueItems=True),
        _schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-preserve-unknown-fields": False}),
        _schema(**{"x-kubernetes-validations": [{}, {"rule": "true", "optionalOldSelf": True}, {"rule": "self + 1"}]}),
        _schema(oneOf=[{"properties": {"b": {"minLength": 1}}, "title": "t"}]),
        _create({"type": "object", "default": {}, "additionalProperties": False, "nullable": True}),
        _create({"type": "object"}, {"type": "array"}),
        _create({}, None, additionalPrinterColumns=[{"jsonPath": "a", "format": "x"}], subresources={"scale": {}}),
    ],
    "the status and updates of CRDs": [
        Step("GET", _INSTALLED),
        Step("PUT", _INSTALLED, {"metadata": {"name": "gadgets.example.org"}}, query=_DRY),
        *(
            Step("PATCH", path, body, query=_DRY, media=MERGE_PATCH)
            for path, body in (
                (f"{_INSTALLED}/status", {"status": {"acceptedNames": {"plural": "Bad Name"}}}),
                (f"{_INSTALLED}/status", {"status": {"storedVersions": []}}),
                (_INSTALLED, {"spec": {"scope": "Cluster", "names": {"kind": "Other"}}}),
                (_INSTALLED, {"spec": {"versions": []}}),
            )
        ),
    ],
    "policies and bindings have all of their errors": [
        _policy(auditAnnotations=[{}, {"key": "a", "valueExpression": "object.a"}]),
        _policy(validations=[{}, {"expression": "variables.x"}], variables=[{}, {"name": "in", "expression": "1"}]),
        _policy(matchConstraints={"resourceRules": [{"resources": ["*/*", "a/*", "a/b", ""], "resourceNames": [""]}]}),
        _policy(paramKind={"apiVersion": "a/b/c"}, matchConditions=[{}, {"name": "a b", "expression": "1"}]),
        Step("POST", _BINDINGS, {"metadata": {"name": "{run}-one"}, "spec": {"validationActions": ["Deny", "Deny"]}}),
        Step("POST", _BINDINGS, {"metadata": {"name": "{run}-one"}, "spec": {"paramRef": {"name": "a/b"}}}),
    ],
    "keywords of custom objects": [
        _gadget(weight=1),
        _gadget(weight=0.3),
        _gadget(big=1.0, level=2.0),
        _gadget(day="20300101", wait="3 days", mac="0123.4567.89ab", blob=""),
        _gadget(matrix=[[1, None, 3]], letters="ä1"),
        _gadget(template={"apiVersion": "a/b/c", "kind": "Bad Kind", "metadata": {"labels": {"a b": "c"}}}),
        _gadget(template={"metadata": {"labels": {"a": 5}}}),
        _gadget(mixed={"b": 1}),
        _gadget(range={"low": 6, "high": 5}),
        _gadget(host=["x"], blob=[]),
        _gadget(host="a.b"),
        _gadget(big=2**63, even=2**63, percent=2**63),
        _gadget(level=1.5),
        _gadget(level=4.5),
        _gadget(template={"apiVersion": "v1", "kind": "Pod", "metadata": "x"}),
        _gadget(template={"apiVersion": "v1", "kind": "Pod", "metadata": None}),
        Step("POST", _GADGETS, {**_ONE, "metadata": {"name": "one", "resourceVersion": "x"}}, query=_DRY),
    ],
    "applied custom objects": [
        _apply(level=2.0, even=4.0, free={"x": 1.0}),
        _apply(size=2.5),
        _apply(weight=4.0),
        _apply(template={"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 5}}}),
        _apply(template={"apiVersion": "v1", "kind": "Pod", "metadata": {"unknown": 1}}),
        _apply(
            template={"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": None, "generation": 1.0}}
        ),
        Step("PATCH", f"{_GADGETS}/one", {"spec": {"host": ["x"]}}, media=MERGE_PATCH),
        _apply(level=2),
    ],
    "schemas of CRDs that are applied": [
        _apply_schema(unknown=1),
        _apply_schema(oneOf=[True]),
        _apply_schema(properties={"x": {"type": 5}}),
        _apply_schema(items={"unknown": 1}),
        _apply_schema(**{"x-kubernetes-validations": [{"rule": "true"}, {"rule": "true"}]}),
        _apply_schema(**{"x-kubernetes-validations": [{}]}),
        _apply_schema(**{"x-kubernetes-validations": [{"rule": ""}, {}]}),
        _apply_schema(properties={"a": {"type": "string", "x-kubernetes-validations": [{}, {"rule": "true"}, {}]}}),
    ],
    "empty keywords at the root of a schema": [
        _create({"type": "object", keyword: empty}, subresources=subresources)
        for subresources in _SUBRESOURCES
        for keyword, empty in (("enum", []), ("allOf", []), ("oneOf", []), ("definitions", {}), ("required", []))
    ],
    "empty keywords in a schema": [_create({"type": "object", **keywords}) for keywords in _EMPTY_KEYWORDS],
    "paths of rules in a schema that is not structural": [
        _create({**keywords, "x-kubernetes-validations": [{"fieldPath": ".size"}, {"rule": "true", "fieldPath": " "}]})
        for keywords in _STRUCTURAL_AND_NOT
    ],
    "defaults of integers whose limits are none": [
        _create({"type": "object", "properties": {"a": {**keywords, "default": default}}})
        for keywords, default in _FRACTIONAL_LIMITS
    ],
    "scales of custom objects": [
        Step("POST", _GADGETS, _ONE),
        _scale({"metadata": {"resourceVersion": "1"}}),
        _scale({"spec": {"replicas": 2}, "metadata": {"resourceVersion": "1"}}),
        _scale({"spec": {"replicas": 2}, "metadata": {"uid": "other"}}),
        _scale({"metadata": None}),
        Step("PUT", f"{_GADGETS}/one/scale", {"metadata": {"name": "one", "uid": "other"}}),
        Step("PUT", f"{_GADGETS}/one/scale", {"metadata": {"name": "one", "labels": []}}),
        Step("PUT", f"{_GADGETS}/one/scale", {"metadata": {"name": "one", "resourceVersion": "x"}}),
        Step("PUT", f"{_GADGETS}/one/scale", {"metadata": {"name": "one", "namespace": "x"}}),
    ],
    "watches see no update without changes through another version": [
        Step("POST", _GADGETS, _ONE),
        Step(WATCH, _GADGETS, query={"resourceVersion": "{now}"}),
        Step("PATCH", f"{_GADGETS}/one".replace("v1", "v1beta1", 1), {"spec": {"size": 1}}, media=MERGE_PATCH),
    ],
    "errors that one answer has together": [
        Step("POST", _GADGETS, {**_ONE, "kind": "a.b", "spec": {"size": "x", "range": {"low": 6, "high": 5}}}),
        Step("POST", _GADGETS, {**_ONE, "kind": "a.b", "spec": {"tags": ["a", "a"], "template": {}}}),
        Step("POST", _GADGETS, {**_ONE, "metadata": {}, "spec": {"size": 1, "range": {}}}),
        Step("POST", _GADGETS, _ONE),
        *(
            Step("PATCH", f"{_GADGETS}/one", body, media=MERGE_PATCH)
            for body in (
                {"kind": "a.b", "metadata": {"deletionGracePeriodSeconds": 5, "labels": {"a b": "c"}}},
                {"apiVersion": "x/v1", "spec": {"range": {"low": 6, "high": 5}}},
                {"spec": {"size": "x"}, "metadata": {"deletionGracePeriodSeconds": 5}},
            )
        ),
        Step(
            "PATCH",
            f"{_GADGETS}/one",
            [{"op": "remove", "path": "/metadata/name"}, {"op": "add", "path": "/spec/-", "value": 1}],
            query={"fieldValidation": "Strict"},
            media="application/json-patch+json",
        ),
        _create({"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]}),
        _create({"type": "object"}, subresources={"status": {"unknown": 1}}),
        Step("PATCH", f"{_INSTALLED}/status", {"status": {"conditions": []}}, query=_DRY, media=MERGE_PATCH),
        Step("PATCH", f"{_INSTALLED}/status", {"metadata": {"selfLink": "/x"}}, query=_DRY, media=MERGE_PATCH),
    ],
    "merge patches leave no nulls in the objects of lists": [
        Step("POST", _GADGETS, _ONE),
        Step("PATCH", f"{_GADGETS}/one", {"spec": {"free": {"a": [{"b": None}, None]}}}, media=MERGE_PATCH),
        Step("PATCH", f"{_GADGETS}/one", {"spec": {"free": {"a": {}}}}, media=MERGE_PATCH),
        Step("PATCH", f"{_GADGETS}/one", {"spec": {"free": {"a": [{"b": None}, None]}}}, media=MERGE_PATCH),
    ],
}
