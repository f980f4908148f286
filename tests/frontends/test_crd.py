from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from pliant.frontends import FRONTENDS
from pliant.frontends.crd import (
    POD_TEMPLATE_MARKER,
    CustomKind,
    ValidationRule,
    build_crd,
    field_doc,
    structural_schema,
)
from pliant.frontends.frontend import required_crds

SCHEMA_WORDS = {
    "type",
    "format",
    "description",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "enum",
    "minimum",
    "maximum",
    "minProperties",
    "maxProperties",
    "minItems",
    "maxItems",
    "maxLength",
    "pattern",
    "default",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Wheel(Struct):
    """Round."""

    size: int


class Car(Struct, rename="camel"):
    """Drives."""

    wheel_list: list[Wheel]
    colour: Annotated[Colour | None, field_doc("What it looks like.")] = None
    doors: Annotated[int, Meta(ge=2, le=5)] | None = None
    plate: Annotated[str, Meta(pattern="^[A-Z]+$")] = ""
    built: datetime | None = None
    is_fast: Annotated[bool, field_doc("Whether\n it is.", rules={"never": "false"}, nullable=True)] = False
    extras: dict[str, Any] = {}
    parts: dict[str, int] = {}
    anything: Any = None
    tags: tuple[str, ...] = ()


def test_types_become_structural_schemas() -> None:
    assert structural_schema(Car) == {
        "type": "object",
        "description": "Drives.",
        "required": ["wheelList"],
        "properties": {
            "wheelList": {
                "type": "array",
                "items": {
                    "type": "object",
                    "description": "Round.",
                    "required": ["size"],
                    "properties": {"size": {"type": "integer"}},
                },
            },
            "colour": {"type": "string", "enum": ["red", "blue", ""], "description": "What it looks like."},
            "doors": {"type": "integer", "minimum": 2, "maximum": 5, "nullable": True},
            "plate": {"type": "string", "pattern": "^[A-Z]+$"},
            "built": {"type": "string", "format": "date-time", "nullable": True},
            "isFast": {
                "type": "boolean",
                "description": "Whether it is.",
                "nullable": True,
                "x-kubernetes-validations": [{"rule": "false", "message": "never"}],
            },
            "extras": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "parts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "anything": {"x-kubernetes-preserve-unknown-fields": True},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_a_rule_may_name_the_field_to_blame() -> None:
    rules = field_doc(
        "A car.", rules={"too few": ValidationRule("self.doors > 1", field_path=".doors")}
    ).extra_json_schema
    assert rules == {
        "x-kubernetes-validations": [{"rule": "self.doors > 1", "message": "too few", "fieldPath": ".doors"}]
    }


def test_a_type_without_a_schema_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no CRD schema"):
        structural_schema(complex)


def test_a_template_holds_the_real_pod_schema_with_a_small_metadata() -> None:
    class Holder(Struct):
        template: Annotated[dict[str, Any], POD_TEMPLATE_MARKER]

    schema = structural_schema(Holder)["properties"]["template"]
    assert schema["required"] == ["spec"]
    assert schema["properties"]["spec"]["properties"]["containers"]["items"]["required"] == ["name"]
    assert "labels" in schema["properties"]["metadata"]["properties"]
    assert "managedFields" not in schema["properties"]["metadata"]["properties"]


def test_a_kind_may_do_without_scale_short_names_and_columns() -> None:
    kind = CustomKind(group="x.io", version="v1", kind="Car", description="A car.", spec_type=Car, status_type=Wheel)
    spec = build_crd(kind)["spec"]
    assert "shortNames" not in spec["names"]
    assert spec["versions"][0]["subresources"] == {"status": {}}
    assert [each["name"] for each in spec["versions"][0]["additionalPrinterColumns"]] == ["Rejected"]


CRDS = [crd for end in FRONTENDS.values() for crd in required_crds(end)]
each_crd = pytest.mark.parametrize("crd", CRDS, ids=[crd["metadata"]["name"] for crd in CRDS])


def schemas_in(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its path."""
    yield path, schema
    for name, nested in schema.get("properties", {}).items():
        yield from schemas_in(nested, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from schemas_in(schema[word], f"{path}[]")


def every_schema(crd: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(schemas_in(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], ""))


@each_crd
def test_a_definition_is_small_enough_for_client_side_apply(crd: dict[str, Any]) -> None:
    assert len(json.dumps(crd)) < 200_000


@each_crd
def test_every_schema_uses_only_words_a_definition_may_use(crd: dict[str, Any]) -> None:
    assert {
        path: schema.keys() - SCHEMA_WORDS for path, schema in every_schema(crd) if schema.keys() - SCHEMA_WORDS
    } == {}


@each_crd
def test_every_schema_is_structural(crd: dict[str, Any]) -> None:
    for path, schema in every_schema(crd):
        is_open = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
        assert "type" in schema or is_open, path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert schema.get("type") != "array" or "items" in schema, path
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys(), path


@each_crd
def test_keys_of_list_maps_are_always_there(crd: dict[str, Any]) -> None:
    for path, schema in every_schema(crd):
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            items = schema["items"]
            assert key in items.get("required", ()), f"{path} {key}"


@each_crd
def test_what_a_user_leaves_out_stays_out(crd: dict[str, Any]) -> None:
    assert [path for path, schema in every_schema(crd) if "default" in schema] == []


@each_crd
def test_every_field_of_our_own_is_explained(crd: dict[str, Any]) -> None:
    unexplained = [
        path
        for path, schema in every_schema(crd)
        if "description" not in schema and ".template." not in path and not path.endswith("[]") and path.count(".") > 1
    ]
    assert unexplained == []


def test_the_columns_people_see() -> None:
    crd = FRONTENDS["elasticdeeplearning.ai", "AITrainingJob"].crd()
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(column["name"], column.get("priority", 0)) for column in columns] == [
        ("Phase", 0),
        ("Ready", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("Reason", 1),
        ("Rejected", 0),
    ]
    assert crd["spec"]["names"]["shortNames"] == ["aitj"]
    assert crd["spec"]["names"]["categories"] == ["pliant"]
