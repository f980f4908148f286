"""Random ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.differential.steps import OTHER_SPACE, RUN, SPACE, WAIT, Step

Fields = dict[str, Any]

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
_VALIDATIONS: tuple[Fields, ...] = (
    {"expression": "object.metadata.name != 'two'"},
    {"expression": "has(object.metadata.labels)", "message": "labels are required"},
    {"expression": "!has(object.metadata.annotations)", "reason": "Forbidden"},
    {
        "expression": "object.spec.size < 50",
        "reason": "Invalid",
        "messageExpression": "'size ' + string(object.spec.size)",
    },
    {"expression": "oldObject == null || object.metadata.generation < 3"},
    {"expression": "request.operation != 'DELETE'", "reason": "RequestEntityTooLarge"},
    {"expression": "request.name != 'one' || request.namespace.endsWith('-a')"},
    {"expression": "namespaceObject.metadata.name.endsWith('-a')"},
    {"expression": "request.dryRun || request.userInfo.username != ''"},
    {"expression": "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"},
    {"expression": "object.kind.size() < 5", "messageExpression": "object.nowhere"},
    {"expression": "request.subResource == '' || request.subResource == 'status'"},
    {"expression": "request.resource.resource in ['gadgets', 'configmaps', 'leases', 'pods', 'secrets']"},
)
_BAD_VALIDATIONS: tuple[Fields, ...] = (
    {"expression": "1"},
    {"expression": "object +"},
    {"expression": "nowhere.x == 1"},
    {"expression": "variables.missing == 1"},
    {"expression": ""},
    {"expression": " "},
    {},
    {"expression": "true\n|| false"},
    {"expression": "true\n|| false", "message": "two lines"},
    {"expression": "true", "message": " "},
    {"expression": "true", "message": "a\nb"},
    {"expression": "true", "messageExpression": "1"},
    {"expression": "true", "messageExpression": "'a' +"},
    {"expression": "true", "messageExpression": " "},
    {"expression": "true", "messageExpression": "string(authorizer.path('/x').check('get').allowed())"},
    {"expression": "true", "reason": "Sometimes"},
    {"expression": "true", "reason": "Unauthorized"},
    {"expression": "params.x == 1"},
    {"expression": "object.matches('[')"},
    {"expression": "request.nowhere == 'x'"},
    {"expression": "namespaceObject.spec.nowhere == 'x'"},
)
_VARIABLES: tuple[Fields, ...] = (
    {"name": "app", "expression": "has(object.metadata.labels) && 'app' in object.metadata.labels"},
    {"name": "limit", "expression": "30"},
    {"name": "deep", "expression": "variables.limit * 2"},
    {"name": "text", "expression": "object.metadata.name"},
)
_BAD_VARIABLES: tuple[Fields, ...] = (
    {"name": "a-b", "expression": "1"},
    {"name": "", "expression": "1"},
    {"name": "x", "expression": ""},
    {"name": "x", "expression": "nowhere"},
    {"name": "limit", "expression": "'twice'"},
    {"name": "early", "expression": "variables.app"},
    {"name": "object", "expression": "1"},
    {"expression": "1"},
)
_CONDITIONS: tuple[Fields, ...] = (
    {"name": "names", "expression": "request.name != 'three'"},
    {"name": "writes", "expression": "request.operation in ['CREATE', 'UPDATE']"},
    {"name": "example.org/users", "expression": "!request.userInfo.username.startsWith('system:node')"},
    {"name": "sizes", "expression": "object.spec.size > 5"},
)
_BAD_CONDITIONS: tuple[Fields, ...] = (
    {"name": "", "expression": "true"},
    {"name": "bad name", "expression": "true"},
    {"name": "names", "expression": "1"},
    {"name": "other", "expression": ""},
    {"name": "uses-variables", "expression": "variables.limit > 1"},
    {"name": "uses-params", "expression": "params.data.a == '1'"},
    {"expression": "true"},
)
_ANNOTATIONS: tuple[Fields, ...] = (
    {"key": "name", "valueExpression": "string(object.metadata.name)"},
    {"key": "size", "valueExpression": "has(object.spec) ? 'some' : null"},
)
_BAD_ANNOTATIONS: tuple[Fields, ...] = (
    {"key": "bad key", "valueExpression": "'x'"},
    {"key": "", "valueExpression": "'x'"},
    {"key": "dynamic", "valueExpression": "object.metadata.name"},
    {"key": "name", "valueExpression": "1"},
    {"key": "name", "valueExpression": ""},
    {"key": "a/b", "valueExpression": "'x'"},
    {"key": "x" * 70, "valueExpression": "'a' +"},
    {"valueExpression": "'x'"},
)
_RULE: Fields = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["*/*"],
    "scope": "Namespaced",
}
_RULES: tuple[Fields, ...] = (
    {},
    {"operations": ["CREATE", "UPDATE"], "resources": ["*"]},
    {"apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["gadgets", "gadgets/status"]},
    {"apiGroups": ["example.org"], "apiVersions": ["v1beta1"], "resources": ["gadgets"]},
    {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases", "secrets"]},
    {"operations": ["DELETE"], "resources": ["*"]},
    {"resources": ["*/scale", "*/status"]},
    {"resourceNames": ["one", "two"]},
)
_BAD_RULES: tuple[Fields, ...] = (
    {"operations": []},
    {"operations": ["READ"]},
    {"operations": ["*", "CREATE"]},
    {"apiGroups": []},
    {"apiGroups": ["*", ""]},
    {"apiVersions": ["*", "v1"]},
    {"apiVersions": [""]},
    {"resources": []},
    {"resources": ["*/*", "pods"]},
    {"resources": ["*", "pods"]},
    {"resources": ["pods/*", "pods/status"]},
    {"resources": ["a/b/c"]},
    {"resources": [""]},
    {"resources": ["pods", "pods"]},
    {"scope": "Everywhere"},
    {"scope": "Cluster"},
    {"resourceNames": ["a b"]},
    {"resourceNames": ["one", "one"]},
    {"resourceNames": [""]},
)
_SELECTORS: tuple[Fields, ...] = (
    {},
    {"matchLabels": {"app": "web"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
)
_BAD_SELECTORS: tuple[Fields, ...] = (
    {"matchLabels": {"a b": "c"}},
    {"matchExpressions": [{"key": "app", "operator": "In"}]},
    {"matchExpressions": [{"key": "app", "operator": "Sometimes", "values": ["x"]}]},
)
_PARAM_KINDS: tuple[Fields, ...] = (
    {"apiVersion": "v1", "kind": "ConfigMap"},
    {"apiVersion": "example.org/v1", "kind": "Gadget"},
    {"apiVersion": "example.org/v9", "kind": "Nothing"},
    {"apiVersion": "v1", "kind": ""},
    {"apiVersion": "a/b/c", "kind": "ConfigMap"},
    {"apiVersion": "", "kind": "Bad Kind"},
    {},
)
_PARAM_REFS: tuple[Fields, ...] = (
    {"name": "one", "parameterNotFoundAction": "Deny"},
    {"name": "one", "namespace": SPACE, "parameterNotFoundAction": "Allow"},
    {"selector": {"matchLabels": {"app": "web"}}, "parameterNotFoundAction": "Allow"},
    {"selector": {}, "parameterNotFoundAction": "Deny"},
    {"name": "one"},
    {"name": "one", "selector": {}, "parameterNotFoundAction": "Deny"},
    {"parameterNotFoundAction": "Perhaps"},
    {"name": "Bad Name", "parameterNotFoundAction": "Deny"},
    {"name": "one", "namespace": "Bad Space", "parameterNotFoundAction": "Deny"},
    {"selector": {"matchLabels": {"a b": "c"}}, "parameterNotFoundAction": "Deny"},
    {},
)
_ACTIONS: tuple[Any, ...] = (
    ["Deny"],
    ["Warn"],
    ["Audit"],
    ["Deny", "Audit"],
    ["Deny", "Warn"],
    ["Deny", "Deny"],
    ["Block"],
    [],
    None,
)


def make_policy(rng: random.Random) -> Fields:
    """Return the fields of a policy, which often has errors."""
    odds = rng.choice((0.0, 0.0, 0.3))
    spec = _make_policy_spec(rng, odds)
    spec["matchConstraints"] = _make_resources(rng, odds)
    if rng.random() < 0.3:
        spec["paramKind"] = copy.deepcopy(rng.choice(_PARAM_KINDS[:2] if rng.random() > odds else _PARAM_KINDS))
    if rng.random() < odds:
        field = rng.choice(("matchConstraints", "validations", "failurePolicy", "auditAnnotations"))
        spec[field] = rng.choice((None, {"matchConstraints": {}, "failurePolicy": "Perhaps"}.get(field, [])))
    return {"spec": spec}


def make_binding(rng: random.Random) -> Fields:
    """Return the fields of a binding, which often has errors."""
    odds = rng.choice((0.0, 0.0, 0.3))
    spec: Fields = {"policyName": f"{RUN}-one", "validationActions": rng.choice(_ACTIONS[:4])}
    if rng.random() < 0.5:
        spec["matchResources"] = _make_resources(rng, odds)
        if rng.random() < 0.5:
            del spec["matchResources"]["resourceRules"]
    if rng.random() < 0.4:
        spec["paramRef"] = copy.deepcopy(rng.choice(_PARAM_REFS if rng.random() < odds else _PARAM_REFS[:4]))
    if rng.random() < odds:
        spec["validationActions"] = copy.deepcopy(rng.choice(_ACTIONS))
    if rng.random() < odds:
        spec["policyName"] = rng.choice(("", "Bad Name", "missing"))
    return {"spec": spec}


def make_policy_status(rng: random.Random) -> Fields:
    """Return a status that a controller may write."""
    warning = {"fieldRef": "spec.validations[0].expression", "warning": "text"}
    return rng.choice(
        ({"observedGeneration": 1}, {"typeChecking": {"expressionWarnings": [warning]}}, {"conditions": []})
    )


def with_policy(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Return a sequence during which a policy decides about the requests in its namespaces."""
    spec = {**_make_policy_spec(rng, 0.0), "matchConstraints": _make_resources(rng, 0.0)}
    spaces = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [SPACE, OTHER_SPACE]}
    binding: Fields = {
        "policyName": f"{RUN}-own",
        "validationActions": rng.choice(_ACTIONS[:4]),
        "matchResources": {"namespaceSelector": {"matchExpressions": [spaces]}},
    }
    params: list[Step] = []
    # kube-apiserver sees parameters a moment after they were written, so the sequence writes none. ConfigMaps are no
    # parameters here: once no policy has them any more, it never again sees changes of them (it does not restart their
    # informer).
    if rng.random() < 0.4 and not any("/gadgets" in step.path for step in steps):
        spec["paramKind"] = dict(_PARAM_KINDS[1])
        binding["paramRef"] = copy.deepcopy(rng.choice(_PARAM_REFS[:4]))
        spec["validations"] = [{"expression": "params == null || params.metadata.name != object.metadata.name"}]
        params = [_create_params(space) for space in (SPACE, OTHER_SPACE) if rng.random() < 0.7]
    metadata = {"name": f"{RUN}-own"}
    return [
        *params,
        Step("POST", _POLICIES, {"metadata": metadata, "spec": spec}),
        Step("POST", _BINDINGS, {"metadata": metadata, "spec": binding}),
        Step(WAIT, _BINDINGS),
        *steps,
        Step("DELETE", f"{_BINDINGS}/{RUN}-own"),
        Step("DELETE", f"{_POLICIES}/{RUN}-own"),
    ]


def _create_params(space: str) -> Step:
    body = {**_PARAM_KINDS[1], "metadata": {"name": "one", "labels": {"app": "web"}}, "spec": {"size": 1}}
    return Step("POST", f"/apis/example.org/v1/namespaces/{space}/gadgets", body)


def _make_policy_spec(rng: random.Random, odds: float) -> Fields:
    spec: Fields = {"validations": _sample(rng, _VALIDATIONS, _BAD_VALIDATIONS, odds, rng.choice((1, 1, 2)))}
    if rng.random() < 0.3:
        spec["matchConditions"] = _sample(rng, _CONDITIONS, _BAD_CONDITIONS, odds, rng.choice((1, 2)))
    if rng.random() < 0.4:
        spec["variables"] = [*copy.deepcopy(_VARIABLES[: rng.randrange(5)]), *_sample(rng, (), _BAD_VARIABLES, odds, 1)]
        if len(spec["variables"]) > 1:
            spec["validations"].append({"expression": "variables.app || variables.limit > 40", "message": "variables"})
    if rng.random() < 0.3:
        spec["auditAnnotations"] = _sample(rng, _ANNOTATIONS, _BAD_ANNOTATIONS, odds, rng.choice((1, 2)))
    if rng.random() < 0.5:
        spec["failurePolicy"] = rng.choice(("Fail", "Ignore"))
    return spec


def _make_resources(rng: random.Random, odds: float) -> Fields:
    rules = [{**copy.deepcopy(_RULE), **each} for each in _sample(rng, _RULES, _BAD_RULES, odds, rng.choice((1, 1, 2)))]
    resources: Fields = {"resourceRules": rules}
    if rng.random() < 0.2:
        excluded = _sample(rng, _RULES[1:], _BAD_RULES, odds, 1)
        resources["excludeResourceRules"] = [{**copy.deepcopy(_RULE), **each} for each in excluded]
    if rng.random() < 0.3:
        selector = rng.choice(("objectSelector", "objectSelector", "namespaceSelector"))
        resources[selector] = copy.deepcopy(rng.choice(_BAD_SELECTORS if rng.random() < odds else _SELECTORS))
    if rng.random() < 0.3:
        resources["matchPolicy"] = "Sometimes" if rng.random() < odds else rng.choice(("Exact", "Equivalent"))
    return resources


def _sample(
    rng: random.Random, good: tuple[Fields, ...], bad: tuple[Fields, ...], odds: float, count: int
) -> list[Fields]:
    """Return different good entries, and some bad ones."""
    chosen = rng.sample(good, min(count, len(good)))
    while rng.random() < odds:
        chosen.append(rng.choice(bad))
    return copy.deepcopy(chosen)
