"""The API server evaluates the rules of CRDs, with the errors of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.embedded.schema.rules.crd_rules import find_rule_errors
from pliant.frontends.frontend import required_crds
from pliant.plugins.registry import registered_kinds
from tests.cel.rule_cases import Json, definition, with_rules
from tests.embedded.serving import Served, serving

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = "/apis/rules.example.org/v1/things"


def thing(**spec: Any) -> Json:
    return {"apiVersion": "rules.example.org/v1", "kind": "Things", "metadata": {"name": "x"}, "spec": spec}


async def define(server: Served, rules: list[Any], properties: Json | None = None, **more: Any) -> tuple[int, Any]:
    reply, body = await server.call("POST", CRDS, definition("things", with_rules(rules, properties, **more)))
    return reply.status, body


async def create(server: Served, **spec: Any) -> list[str]:
    """Create the object; return the errors."""
    return causes(*await server.call("POST", OBJECTS, thing(**spec)))


async def change(server: Served, **spec: Any) -> list[str]:
    """Change fields of the spec; return the errors."""
    reply = await server.call("PATCH", f"{OBJECTS}/x", {"spec": spec}, media="application/merge-patch+json")
    return causes(*reply)


def causes(reply: Any, body: Any) -> list[str]:
    if reply.status in (200, 201):
        return []
    assert (reply.status, body["reason"]) == (422, "Invalid")
    return [f"{cause['field']}: {cause['message']}" for cause in body["details"]["causes"]]


async def test_a_rule_that_fails_refuses_the_object_with_its_message() -> None:
    async with serving() as server:
        await define(server, ["self.a > 1", {"rule": "self.a < 9", "message": "too large", "fieldPath": ".a"}])
        assert await create(server, a=1) == ["spec: Invalid value: failed rule: self.a > 1"]
        assert await create(server, a=9) == ["spec.a: Invalid value: too large"]
        assert await create(server) == [
            'spec: Invalid value: "object": no such key: a evaluating rule: self.a > 1',
            'spec: Invalid value: "object": no such key: a evaluating rule: too large',
        ]
        assert await create(server, a=2) == []


async def test_a_rule_with_old_self_is_evaluated_only_for_updates() -> None:
    async with serving() as server:
        await define(server, [{"rule": "self.a >= oldSelf.a", "message": "must not shrink"}])
        assert await create(server, a=5) == []
        assert await change(server, a=4) == ["spec: Invalid value: must not shrink"]
        assert await change(server, a=6) == []


async def test_items_of_a_keyed_list_are_compared_with_their_old_values() -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    keyed = {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": item}},
    }
    async with serving() as server:
        await define(server, [], {"ml": keyed})
        assert await create(server, ml=[{"name": "a", "v": 5}, {"name": "b", "v": 1}]) == []
        errors = await change(server, ml=[{"name": "b", "v": 1}, {"name": "a", "v": 4}])
        assert errors == ["spec.ml[1].v: Invalid value: 4: failed rule: self >= oldSelf"]
        assert await change(server, ml=[{"name": "c", "v": 0}]) == []


async def test_an_unchanged_value_that_a_newer_rule_refuses_stays_valid() -> None:
    even = {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}
    async with serving() as server:
        await define(server, [], {"v": {"type": "integer"}})
        assert await create(server, v=3) == []
        _, crd = await server.call("GET", f"{CRDS}/things.rules.example.org")
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["v"] = even
        reply, _ = await server.call("PUT", f"{CRDS}/things.rules.example.org", crd)
        assert reply.status == 200
        assert await change(server, a=1) == []
        assert await change(server, v=5) == ["spec.v: Invalid value: 5: failed rule: self % 2 == 0"]


async def test_defaults_are_set_before_rules_are_evaluated() -> None:
    async with serving() as server:
        await define(server, ["self.z == 5"], {"z": {"type": "integer", "default": 5}})
        assert await create(server) == []


async def test_rules_are_not_evaluated_for_an_object_of_a_wrong_type() -> None:
    async with serving() as server:
        await define(server, ["self.a > 1"])
        errors = await create(server, a="x")
        assert len(errors) == 2
        assert errors[1].startswith("<nil>: Invalid value: null: some validation rules were not checked")


async def test_a_crd_with_an_invalid_rule_is_refused() -> None:
    async with serving() as server:
        status, body = await define(server, ["self.missing > 1"])
        assert status == 422
        cause = body["details"]["causes"][0]
        assert cause["field"] == "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
        assert "compilation failed: ERROR: <input>:1:5: undefined field 'missing'" in cause["message"]


async def test_a_crd_whose_rule_may_cost_too_much_is_refused() -> None:
    async with serving() as server:
        status, body = await define(server, ["self.ul.all(x, self.ul.all(y, x == y))"])
        assert status == 422
        assert "estimated rule cost exceeds budget by factor of more than 100x" in body["message"]


async def test_rules_of_one_object_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pliant.embedded.schema.rules.rule_validator.OBJECT_COST_LIMIT", 150)
    async with serving() as server:
        rules = [f"self.l.all(x, x >= {number})" for number in range(-3, 0)]
        numbers = {"type": "array", "items": {"type": "integer"}, "maxItems": 30}
        assert (await define(server, rules, {"l": numbers}))[0] == 201
        assert await create(server, l=[1] * 3) == []
        problem = "validation failed due to running out of cost budget, no further validation rules will be run"
        assert await create(server, l=[1] * 20) == [f'spec: Invalid value: "object": {problem}']


async def test_a_rule_has_a_cost_limit_of_its_own() -> None:
    loops = "self.l.all(x, self.l.all(y, self.l.all(z, self.l.all(w, x + y + z + w >= {}))))"
    async with serving() as server:
        long = {"type": "array", "items": {"type": "integer"}, "maxItems": 26}
        assert (await define(server, [loops.format(0)], {"l": long}))[0] == 201
        problem = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to "
        rule = f"call cost exceeds limit for rule: {loops.format(0)}"
        assert await create(server, l=list(range(25))) == [f'spec: Invalid value: "object": {problem}{rule}']


@pytest.mark.parametrize(
    "crd",
    [crd for kind in registered_kinds().values() for crd in required_crds(kind)],
    ids=lambda crd: crd["metadata"]["name"],
)
def test_the_rules_of_our_own_kinds_are_valid(crd: Json) -> None:
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert find_rule_errors(schema, "schema") == []
