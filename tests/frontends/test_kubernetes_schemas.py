from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.schemas import kubernetes_schema_names, load_kubernetes_schema

KINDS = [
    "Binding",
    "ConfigMap",
    "CustomResourceDefinition",
    "Event",
    "Lease",
    "Namespace",
    "Node",
    "ObjectMeta",
    "Pod",
    "PodTemplateSpec",
    "Scale",
    "Secret",
    "Service",
    "ServiceAccount",
    "Status",
]


def words(schema: Any) -> set[str]:
    """Every key used anywhere in a schema, names of fields aside."""
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for field in schema.get("properties", {}).values():
        found |= words(field)
    return found | words(schema.get("items")) | words(schema.get("additionalProperties"))


@pytest.mark.parametrize("name", KINDS)
def test_the_kinds_a_cluster_serves_are_kept(name: str) -> None:
    schema = load_kubernetes_schema(name)
    assert schema["type"] == "object"
    assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize("name", kubernetes_schema_names())
def test_definitions_hold_facts_and_no_words(name: str) -> None:
    assert words(load_kubernetes_schema(name)) <= {
        "type",
        "format",
        "default",
        "required",
        "properties",
        "items",
        "additionalProperties",
        "pattern",
        "nullable",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    }


def test_the_caller_may_change_what_it_gets() -> None:
    load_kubernetes_schema("Pod")["properties"].clear()
    assert load_kubernetes_schema("Pod")["properties"]


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load_kubernetes_schema("Unicorn")


def test_what_contains_itself_stays_open() -> None:
    validation = load_kubernetes_schema("CustomResourceValidation")
    assert validation["properties"]["openAPIV3Schema"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_a_quantity_may_be_a_fraction_without_quotes() -> None:
    limits = load_kubernetes_schema("ResourceRequirements")["properties"]["limits"]["additionalProperties"]
    assert "type" not in limits
    assert limits["x-kubernetes-preserve-unknown-fields"] is True


def test_only_defaults_that_say_something_are_kept() -> None:
    port = load_kubernetes_schema("ContainerPort")["properties"]
    assert port["protocol"]["default"] == "TCP"
    assert "default" not in port["containerPort"]
