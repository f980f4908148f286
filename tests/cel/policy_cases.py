"""ValidatingAdmissionPolicies and requests to which they apply: the same go to both servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
NAMESPACE = "policies"


def constraints(*resources: str, operations: tuple[str, ...] = ("*",)) -> Json:
    """Return matchConstraints for resources of the core group in the namespace of the tests."""
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": list(operations), "resources": list(resources)}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    return {"resourceRules": [rule], "namespaceSelector": selector}


def config_map(labels: Json | None = None, name: str = "c", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


@dataclass(frozen=True)
class Case:
    """A policy, its binding, and objects that are created in dry runs."""

    policy: Json
    objects: list[Json]
    binding: Json = field(default_factory=dict)


_X_ONLY: Json = {"validations": [{"expression": "object.data.a == 'x'"}]}
_PARAMS: Json = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "validations": [{"expression": "params.data.a == object.data.a", "messageExpression": "'want ' + params.data.a"}],
}
_VARIABLES: Json = {
    "variables": [{"name": "a", "expression": "object.data.a"}, {"name": "size", "expression": "variables.a.size()"}],
    "validations": [{"expression": "variables.a == 'x'"}, {"expression": "variables.size > 1"}],
}
_REQUEST = (
    "request.operation + ' ' + request.resource.resource + ' ' + request.namespace + ' ' + request.name + ' ' + "
    "request.kind.kind + ' ' + string(request.dryRun) + ' ' + string(has(request.subResource))"
)
_LOOPS = "object.data.map(k, object.data.map(l, object.data.map(m, k + l + m))).size() < 0 || true"


def _message(**fields: str) -> Json:
    return {"validations": [{"expression": "object.data.a == 'x'", **fields}]}


def _reference(action: str, **fields: Any) -> Json:
    return {"paramRef": {**fields, "parameterNotFoundAction": action}}


CASES = [
    Case(_X_ONLY, [config_map(a="x"), config_map(a="y"), config_map(b="y")]),
    Case(_message(message="a must be x", reason="Forbidden"), [config_map(a="y")]),
    Case(_message(messageExpression="'a is ' + object.data.a", reason="RequestEntityTooLarge"), [config_map(a="y")]),
    Case(_message(messageExpression="'a is ' + object.data.z"), [config_map(a="y")]),
    Case({**_X_ONLY, "failurePolicy": "Ignore"}, [config_map(a="y"), config_map(b="y")]),
    Case(
        {**_X_ONLY, "matchConditions": [{"name": "c", "expression": "object.metadata.name.startsWith('m')"}]},
        [config_map(a="y"), config_map(name="m", a="y")],
    ),
    Case({**_X_ONLY, "matchConditions": [{"name": "c", "expression": "object.data.q == 'x'"}]}, [config_map(a="y")]),
    Case(_VARIABLES, [config_map(a="y"), config_map(b="y"), config_map(a="x")]),
    Case(_PARAMS, [config_map(a="y"), config_map(a="z")], _reference("Deny", name="params", namespace="default")),
    Case(_PARAMS, [config_map(a="y")], _reference("Deny", name="missing")),
    Case(_PARAMS, [config_map(a="y")], _reference("Allow", name="missing")),
    Case(
        _PARAMS,
        [config_map(a="y"), config_map(a="z")],
        _reference("Deny", selector={"matchLabels": {"p": "1"}}, namespace="default"),
    ),
    Case(
        {**_PARAMS, "paramKind": {"apiVersion": "x.y/v1", "kind": "Nope"}}, [config_map()], _reference("Deny", name="a")
    ),
    Case({"validations": [{"expression": "request.dryRun == false", "messageExpression": _REQUEST}]}, [config_map()]),
    Case({"validations": [{"expression": "namespaceObject.metadata.name == 'x'"}]}, [config_map()]),
    Case({"validations": [{"expression": "authorizer.requestResource.check('x').allowed()"}]}, [config_map()]),
    Case(
        _X_ONLY,
        [config_map(a="y"), config_map({"l": "z"}, a="y")],
        {"matchResources": {"objectSelector": {"matchLabels": {"l": "z"}}}},
    ),
    Case({**_X_ONLY, "matchConstraints": constraints("configmaps", operations=("DELETE",))}, [config_map(a="y")]),
    Case({"validations": [{"expression": _LOOPS}]}, [config_map(**{f"k{index}": "v" for index in range(90)})]),  # type: ignore[arg-type]
    Case(
        {
            "validations": [{"expression": "false"}],
            "auditAnnotations": [{"key": "a", "valueExpression": "'x' + object.data.a"}],
        },
        [config_map(a="y"), config_map(b="y")],
        {"validationActions": ["Audit"]},
    ),
]

_VALID: Json = {"validations": [{"expression": "true"}]}
POLICIES: list[Json] = [
    {
        "validations": [
            {"expression": "object.zz == 1"},
            {"expression": "foo"},
            {"expression": "1"},
            {"expression": " "},
            {"expression": "true", "message": " "},
            {"expression": "true", "messageExpression": "1"},
            {"expression": "true", "reason": "x"},
            {"expression": "params.x"},
        ]
    },
    {"validations": []},
    {**_VALID, "failurePolicy": "x"},
    {**_VALID, "matchConstraints": None},
    {**_VALID, "matchConstraints": {"resourceRules": []}},
    {**_VALID, "matchConditions": [{"name": "a", "expression": "variables.x"}, {"name": "a", "expression": "true"}]},
    {
        "validations": [{"expression": "variables.x > 1 && variables.y"}],
        "variables": [
            {"name": "x", "expression": "1"},
            {"name": "y", "expression": "variables.z"},
            {"name": "1", "expression": "1"},
        ],
    },
    {
        "validations": [
            {"expression": "request.foo == 'x'"},
            {"expression": "request.userInfo.username == 1"},
            {"expression": "namespaceObject.metadata.labels.x == 'x'"},
        ]
    },
    {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}, {"key": "a b", "valueExpression": "1"}]},
]
BINDINGS: list[Json] = [
    {"policyName": ""},
    {"validationActions": ["Deny", "Warn"]},
    {"validationActions": ["X"]},
    {"paramRef": {}},
    {"paramRef": {"name": "x", "selector": {}}},
    {"paramRef": {"name": "x"}},
    {"paramRef": {"name": "x", "parameterNotFoundAction": "Q"}},
]


def policy(spec: Json) -> Json:
    return _object("ValidatingAdmissionPolicy", "p", {"matchConstraints": constraints("configmaps"), **spec})


def binding(spec: Json) -> Json:
    fields = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return _object("ValidatingAdmissionPolicyBinding", "b", fields)


def _object(kind: str, name: str, spec: Json) -> Json:
    metadata = {"name": name}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
