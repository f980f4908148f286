"""ValidatingAdmissionPolicies allow, deny and warn as on kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from tests.embedded.serving import Served, pod, serving

Json = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


def resource_rules(*resources: str, operations: tuple[str, ...] = ("*",), group: str = "", version: str = "*") -> Json:
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
    }
    return {"resourceRules": [rule]}


async def add_policy(server: Served, spec: Json, **binding: Any) -> None:
    """Create a policy about ConfigMaps, unless the spec says otherwise, and its binding."""
    await add(server, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "p", {
        "matchConstraints": resource_rules("configmaps"), **spec
    })  # fmt: skip
    fields = {"policyName": "p", "validationActions": ["Deny"], **binding}
    await add(server, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "b", fields)


async def add(server: Served, plural: str, kind: str, name: str, spec: Json) -> None:
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    reply, answer = await server.call("POST", f"{GROUP}/{plural}", body)
    assert reply.status == 201, answer


def config_map(name: str = "c", labels: Json | None = None, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


async def denial(server: Served, body: Json, path: str = MAPS) -> str:
    """Try to create an object; return why a policy denies it, or nothing."""
    reply, answer = await server.call("POST", path, body, dryRun="All")
    if reply.status == 201:
        return ""
    before, _, text = str(answer["message"]).partition("denied request: ")
    assert before.startswith(f'{path.rpartition("/")[2]} "{body["metadata"]["name"]}" is forbidden: Validating')
    return text


X_ONLY: Json = {"validations": [{"expression": "object.data.a == 'x'"}]}
FAILED = "failed expression: object.data.a == 'x'"


async def test_a_policy_denies_what_its_expression_finds_invalid() -> None:
    async with serving() as server:
        await add_policy(server, X_ONLY)
        assert await denial(server, config_map(a="x")) == ""
        assert await denial(server, config_map(a="y")) == FAILED
        error = "expression 'object.data.a == 'x'' resulted in error: no such key: a"
        assert await denial(server, config_map(b="y")) == error
        reply, answer = await server.call("POST", MAPS, config_map(a="y"))
        message = f"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {FAILED}"
        assert (reply.status, answer["reason"]) == (422, "Invalid")
        assert answer["message"] == f'configmaps "c" is forbidden: {message}'
        assert answer["details"] == {"name": "c", "kind": "configmaps", "causes": [{"message": message}]}


async def test_an_edited_policy_is_in_effect_at_once() -> None:
    async with serving() as server:
        await add_policy(server, X_ONLY)
        assert await denial(server, config_map(a="y")) == FAILED
        path = f"{GROUP}/validatingadmissionpolicies/p"
        patch = {"spec": {"validations": [{"expression": "object.data.a == 'y'"}]}}
        reply, _ = await server.call("PATCH", path, patch, media=MERGE)
        assert reply.status == 200
        assert await denial(server, config_map(a="y")) == ""


async def test_a_validation_chooses_message_and_reason() -> None:
    validation = {
        "expression": "object.data.a == 'x'",
        "messageExpression": "'a is ' + object.data.a",
        "message": "a must be x",
        "reason": "Forbidden",
    }
    async with serving() as server:
        await add_policy(server, {"validations": [validation]})
        assert await denial(server, config_map(a="y")) == "a is y"
        reply, answer = await server.call("POST", MAPS, config_map(a="a\nb"))
        assert (reply.status, answer["reason"]) == (403, "Forbidden")
        assert answer["message"].endswith("denied request: a must be x")


async def test_a_binding_that_warns_lets_the_request_pass() -> None:
    async with serving() as server:
        await add_policy(server, X_ONLY, validationActions=["Warn"])
        reply, _ = await server.call("POST", MAPS, config_map(a="y"))
        assert reply.status == 201
        warning = f"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': {FAILED}"
        assert reply.headers["Warning"] == f'299 - "{warning}"'


async def test_an_error_is_ignored_if_the_failure_policy_says_so() -> None:
    async with serving() as server:
        await add_policy(server, {**X_ONLY, "failurePolicy": "Ignore"})
        assert await denial(server, config_map(b="y")) == ""
        assert await denial(server, config_map(a="y")) == FAILED


async def test_conditions_and_variables_are_evaluated_first() -> None:
    spec = {
        "matchConditions": [{"name": "named", "expression": "object.metadata.name.startsWith('m')"}],
        "variables": [
            {"name": "a", "expression": "object.data.a"},
            {"name": "size", "expression": "variables.a.size()"},
        ],
        "validations": [{"expression": "variables.size > 1", "message": "too short"}],
    }
    async with serving() as server:
        await add_policy(server, spec)
        assert await denial(server, config_map("c", a="y")) == ""
        assert await denial(server, config_map("m", a="y")) == "too short"
        problem = 'composited variable "a" fails to evaluate: no such key: a'
        assert problem in await denial(server, config_map("m", b="y"))


PARAMS: Json = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "validations": [{"expression": "params.data.a == object.data.a", "messageExpression": "'want ' + params.data.a"}],
}


async def test_parameters_are_objects_of_the_cluster() -> None:
    async with serving() as server:
        await server.call("POST", MAPS, config_map("params", {"p": "1"}, a="z"))
        reference = {"name": "params", "namespace": "default", "parameterNotFoundAction": "Deny"}
        await add_policy(server, PARAMS, paramRef=reference)
        assert await denial(server, config_map(a="z")) == ""
        assert await denial(server, config_map(a="y")) == "want z"


@pytest.mark.parametrize(("action", "text"), [("Allow", ""), ("Deny", "failed to configure binding: no params found")])
async def test_a_binding_decides_what_missing_parameters_mean(action: str, text: str) -> None:
    async with serving() as server:
        selector = {"selector": {"matchLabels": {"p": "1"}}, "parameterNotFoundAction": action}
        await add_policy(server, PARAMS, paramRef=selector)
        found = await denial(server, config_map(a="z"))
        assert found.startswith(text)
        assert bool(found) == bool(text)


async def test_updates_and_deletions_have_the_old_object() -> None:
    spec = {"validations": [{"expression": "oldObject == null || object != null && object.data.a == oldObject.data.a"}]}
    async with serving() as server:
        await add_policy(server, spec)
        await server.call("POST", MAPS, config_map(a="x"))
        replies = [
            await server.call("PATCH", f"{MAPS}/c", {"data": {"a": "y"}}, media=MERGE),
            await server.call("DELETE", f"{MAPS}/c"),
            await server.call("PATCH", f"{MAPS}/c", {"data": {"b": "y"}}, media=MERGE),
        ]
        assert [reply.status for reply, _ in replies] == [422, 422, 200]


async def test_selectors_and_rules_choose_the_requests() -> None:
    async with serving() as server:
        await server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        constraints = {
            **resource_rules("configmaps", operations=("CREATE",)),
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        }
        selector = {"objectSelector": {"matchLabels": {"l": "z"}}}
        await add_policy(server, {**X_ONLY, "matchConstraints": constraints}, matchResources=selector)
        assert await denial(server, config_map(a="y")) == ""
        assert await denial(server, config_map("c", {"l": "z"}, a="y")) == FAILED
        assert await denial(server, config_map("c", {"l": "z"}, a="y"), "/api/v1/namespaces/other/configmaps") == ""
        await server.call("POST", MAPS, config_map(a="y"))
        reply, _ = await server.call("PATCH", f"{MAPS}/c", {"metadata": {"labels": {"l": "z"}}}, media=MERGE)
        assert reply.status == 200


async def test_the_request_and_the_namespace_are_variables() -> None:
    message = (
        "request.operation + ' ' + request.resource.resource + ' ' + request.namespace + '/' + request.name + ' ' + "
        "request.userInfo.username + ' ' + namespaceObject.metadata.name + ' ' + string(has(request.subResource))"
    )
    async with serving() as server:
        await add_policy(
            server, {"validations": [{"expression": "request.dryRun == false", "messageExpression": message}]}
        )
        expected = "CREATE configmaps default/c kubernetes-admin default false"
        assert await denial(server, config_map(a="y")) == expected


async def test_a_policy_may_ask_what_a_user_may_do() -> None:
    source = "authorizer.serviceAccount('default', 'default').group('').resource('pods').check('get').allowed()"
    async with serving(mode=AuthorizationMode.RBAC) as server:
        await add_policy(
            server,
            {"validations": [{"expression": source}, {"expression": "authorizer.path('/x').check('get').allowed()"}]},
        )
        assert await denial(server, config_map(a="y")) == f"failed expression: {source}"


async def test_a_policy_may_be_about_pods_and_about_custom_kinds_of_any_version() -> None:
    spec = {
        "matchConstraints": resource_rules("pods", operations=("CREATE",), version="v1"),
        "validations": [{"expression": "object.spec.containers.all(c, c.image.startsWith('ok'))", "message": "image"}],
    }
    async with serving() as server:
        await add_policy(server, spec)
        assert await denial(server, pod(), "/api/v1/namespaces/default/pods") == "image"


async def test_a_hostile_policy_runs_out_of_budget() -> None:
    loops = "object.data.all(k, object.data.all(l, object.data.all(m, k + l + m != '')))"
    async with serving() as server:
        await add_policy(server, {"validations": [{"expression": loops}]})
        found = await denial(server, {**config_map(), "data": {f"k{index}": "v" for index in range(100)}})
        assert found.endswith("operation cancelled: actual cost limit exceeded")


INVALID: dict[str, Json] = {
    "spec.validations[0].expression": {"validations": [{"expression": "unknown"}]},
    "spec.validations[0].messageExpression": {"validations": [{"expression": "true", "messageExpression": "1"}]},
    "spec.validations[0].reason": {"validations": [{"expression": "true", "reason": "Other"}]},
    "spec.validations": {"validations": []},
    "spec.failurePolicy": {**X_ONLY, "failurePolicy": "Other"},
    "spec.matchConstraints.resourceRules": {**X_ONLY, "matchConstraints": {}},
    "spec.matchConditions[0].expression": {**X_ONLY, "matchConditions": [{"name": "a", "expression": "variables.x"}]},
    "spec.variables[0].expression": {**X_ONLY, "variables": [{"name": "a", "expression": "variables.x"}]},
    "spec.auditAnnotations[0].valueExpression": {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
}


@pytest.mark.parametrize("field", INVALID)
async def test_an_invalid_policy_is_refused(field: str) -> None:
    async with serving() as server:
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "p"},
            "spec": {"matchConstraints": resource_rules("configmaps"), **INVALID[field]},
        }
        reply, answer = await server.call("POST", f"{GROUP}/validatingadmissionpolicies", body)
        assert reply.status == 422
        assert field in [cause["field"] for cause in answer["details"]["causes"]]


async def test_no_policy_applies_to_policies() -> None:
    async with serving() as server:
        everything = resource_rules("*", group="*")
        await add_policy(server, {"matchConstraints": everything, "validations": [{"expression": "false"}]})
        assert await denial(server, config_map()) == "failed expression: false"
        reply, _ = await server.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
        assert reply.status == 200
        assert await denial(server, config_map()) == ""
