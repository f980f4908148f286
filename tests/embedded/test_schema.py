from __future__ import annotations

from typing import Any

import pytest

from pliant.embedded.schema import Schema, invalid_error
from pliant.errors import InvalidSpec


def schema_of(**properties: Any) -> Schema:
    spec = {"type": "object", "properties": properties}
    return Schema.compile({"type": "object", "properties": {"spec": spec}})


def problems_of(schema: Schema, spec: Any) -> list[str]:
    return [str(problem) for problem in schema.validate({"metadata": {"name": "a"}, "spec": spec})]


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ONE_OF = "must validate one and only one schema (oneOf). Found"


@pytest.mark.parametrize(
    ("node", "value", "says"),
    [
        (INTEGER, "x", 'Invalid value: "string": spec.f in body must be of type integer: "string"'),
        (INTEGER, True, 'Invalid value: "boolean": spec.f in body must be of type integer: "boolean"'),
        (INTEGER, 1.5, 'Invalid value: "number": spec.f in body must be of type integer: "number"'),
        (STRING, 1, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        ({"type": "boolean"}, "y", 'Invalid value: "string": spec.f in body must be of type boolean: "string"'),
        ({"type": "object"}, [], 'Invalid value: "array": spec.f in body must be of type object: "array"'),
        (
            {"type": "array", "items": STRING},
            {},
            'Invalid value: "object": spec.f in body must be of type array: "object"',
        ),
        (STRING | {"enum": ["None", "All"]}, "x", 'Unsupported value: "x": supported values: "All", "None"'),
        (INTEGER | {"enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
        (INTEGER | {"minimum": 1}, 0, "Invalid value: 0: spec.f in body should be greater than or equal to 1"),
        (
            INTEGER | {"minimum": 1, "exclusiveMinimum": True},
            1,
            "Invalid value: 1: spec.f in body should be greater than 1",
        ),
        (INTEGER | {"maximum": 4}, 5, "Invalid value: 5: spec.f in body should be less than or equal to 4"),
        (
            INTEGER | {"maximum": 4, "exclusiveMaximum": True},
            4,
            "Invalid value: 4: spec.f in body should be less than 4",
        ),
        (INTEGER | {"multipleOf": 2}, 5, "Invalid value: 5: spec.f in body should be a multiple of 2"),
        (
            INTEGER | {"format": "int32"},
            2**31,
            "Invalid value: 2147483648: spec.f in body should be less than or equal to 2147483647",
        ),
        (STRING | {"minLength": 2}, "a", 'Invalid value: "a": spec.f in body should be at least 2 chars long'),
        (STRING | {"maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        (STRING | {"pattern": "^a+$"}, "aab", "Invalid value: \"aab\": spec.f in body should match '^a+$'"),
        (STRING | {"pattern": "^a+$"}, "a\n", "Invalid value: \"a\\n\": spec.f in body should match '^a+$'"),
        (
            STRING | {"format": "date-time"},
            "soon",
            'Invalid value: "soon": spec.f in body must be of type date-time: "soon"',
        ),
        (
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            "Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        ({"type": "array", "items": STRING, "maxItems": 1}, ["a", "b"], "Too many: 2: must have at most 1 items"),
        (
            {"type": "object", "additionalProperties": STRING, "minProperties": 1},
            {},
            "Invalid value: {}: spec.f in body should have at least 1 properties",
        ),
        (
            {"type": "object", "additionalProperties": STRING, "maxProperties": 1},
            {"a": "", "b": ""},
            "Too many: 2: must have at most 1 items",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            [],
            'Invalid value: "array": spec.f in body must be of type integer,string: "array"',
        ),
    ],
)
def test_a_wrong_value_is_told_in_the_servers_words(node: dict[str, Any], value: Any, says: str) -> None:
    assert problems_of(schema_of(f=node), {"f": value}) == [f"spec.f: {says}"]


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (INTEGER, 3.0),
        ({"type": "number"}, 3),
        ({"type": "number"}, 3.5),
        (STRING | {"nullable": True}, None),
        (STRING | {"format": "date-time"}, "2026-01-02T03:04:05Z"),
        (STRING | {"format": "date-time"}, "2026-01-02T03:04:05.123456+01:00"),
        (STRING | {"format": "byte"}, "aGk="),
        (STRING | {"format": "ipv4"}, "10.0.0.1"),
        (STRING | {"format": "duration"}, "1h30m"),
        (STRING | {"format": "something-else"}, "anything"),
        ({"x-kubernetes-int-or-string": True}, 3),
        ({"x-kubernetes-int-or-string": True}, "10%"),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "10%"),
        ({"x-kubernetes-preserve-unknown-fields": True}, [1, {"a": None}]),
        (STRING | {"enum": ["a"]}, "a"),
    ],
)
def test_a_sound_value_has_no_problem(node: dict[str, Any], value: Any) -> None:
    assert problems_of(schema_of(f=node), {"f": value}) == []


def test_problems_are_found_at_any_depth_and_all_at_once() -> None:
    worker = {"type": "object", "required": ["replicas", "image"], "properties": {"replicas": INTEGER, "image": STRING}}
    schema = schema_of(
        groups={"type": "object", "additionalProperties": worker}, hosts={"type": "array", "items": STRING}
    )
    found = problems_of(schema, {"groups": {"worker": {"replicas": "two"}}, "hosts": ["a", 1]})
    place = "spec.groups.worker.replicas"
    assert found == [
        f'{place}: Invalid value: "string": {place} in body must be of type integer: "string"',
        "spec.groups.worker.image: Required value",
        'spec.hosts[1]: Invalid value: "integer": spec.hosts[1] in body must be of type string: "integer"',
    ]


def test_null_is_refused_as_an_item_unless_items_are_nullable() -> None:
    plain, nullable = ({"type": "array", "items": STRING | more} for more in ({}, {"nullable": True}))
    found = problems_of(schema_of(plain=plain, nullable=nullable), {"plain": [None], "nullable": [None]})
    assert found == ['spec.plain[0]: Invalid value: "null": spec.plain[0] in body must be of type string: "null"']


def test_lists_refuse_what_is_there_twice() -> None:
    named = {"type": "object", "required": ["name"], "properties": {"name": STRING, "value": STRING}}
    by_name = {"type": "array", "items": named, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    schema = schema_of(env=by_name, tags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"})
    found = problems_of(
        schema, {"env": [{"name": "a"}, {"name": "b"}, {"name": "a", "value": "x"}], "tags": ["x", "x"]}
    )
    assert found == ['spec.env[2]: Duplicate value: {"name":"a"}', 'spec.tags[1]: Duplicate value: "x"']


@pytest.mark.parametrize(
    ("junctors", "value", "says"),
    [
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": "1"}, []),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "1", "b": "2"},
            [f'spec: Invalid value: "": "spec" {ONE_OF} 2 valid alternatives'],
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [f'spec: Invalid value: "": "spec" {ONE_OF} none valid', "spec.a: Required value"],
        ),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": "1", "b": "2"}, []),
        (
            {"anyOf": [{"required": ["a", "b"]}, {"required": ["b"]}]},
            {},
            [
                'spec: Invalid value: "": "spec" must validate at least one schema (anyOf)',
                "spec.a: Required value",
                "spec.b: Required value",
            ],
        ),
        (
            {"allOf": [{"properties": {"a": {"minLength": 2}}}]},
            {"a": "x"},
            [
                'spec: Invalid value: "": "spec" must validate all the schemas (allOf)',
                'spec.a: Invalid value: "x": spec.a in body should be at least 2 chars long',
            ],
        ),
        (
            {"not": {"required": ["a"]}},
            {"a": "x"},
            ['spec: Invalid value: "": "spec" must not validate the schema (not)'],
        ),
    ],
)
def test_logic_between_schemas_holds(junctors: dict[str, Any], value: Any, says: list[str]) -> None:
    spec = {"type": "object", "properties": {"a": STRING, "b": STRING}, **junctors}
    schema = Schema.compile({"type": "object", "properties": {"spec": spec}})
    assert problems_of(schema, value) == says


def test_names_and_labels_must_be_ones_kubernetes_takes() -> None:
    schema = schema_of()
    metadata = {"name": "Not_ok", "labels": {"a b": "c", "d": "e f"}, "annotations": {"/x": ""}}
    found = [str(problem) for problem in schema.validate({"metadata": metadata})]
    assert [text.partition(":")[0] for text in found] == [
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
        "metadata.annotations",
    ]
    assert "a lowercase RFC 1123 subdomain must consist of" in found[0]


def test_metadata_of_the_wrong_type_is_told_like_any_field() -> None:
    found = [str(problem) for problem in schema_of().validate({"metadata": {"name": "a", "labels": {"a": 1}}})]
    assert found == [
        'metadata.labels.a: Invalid value: "integer": metadata.labels.a in body must be of type string: "integer"'
    ]


def test_an_embedded_resource_needs_to_say_what_it_is() -> None:
    schema = schema_of(
        template={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": STRING}}
    )
    obj = {"spec": {"template": {"kind": "Pod", "metadata": {"labels": {"a": "b"}, "odd": 1}, "spec": "x", "other": 1}}}
    assert schema.prune(obj) == ["spec.template.other", "spec.template.metadata.odd"]
    assert [str(problem) for problem in schema.validate(obj)] == ["spec.template.apiVersion: Required value"]


def test_one_refusal_tells_every_problem() -> None:
    schema = schema_of(a=STRING, b=STRING)
    error = invalid_error("Job", "example.org", "j", schema.validate({"spec": {"a": 1, "b": 2}}))
    assert error.status == 422
    assert error.message.startswith('Job.example.org "j" is invalid: [spec.a: Invalid value: "integer": spec.a in body')
    assert [cause["field"] for cause in error.details["causes"]] == ["spec.a", "spec.b"]
    assert error.details["causes"][0]["reason"] == "FieldValueTypeInvalid"


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": "string"}, "openAPIV3Schema.type"),
        ({"type": "object", "properties": {"a": {}}}, "openAPIV3Schema.properties[a].type"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "openAPIV3Schema.properties[a].type"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "openAPIV3Schema.properties[a].items"),
        ({"type": "object", "$ref": "#/x"}, "openAPIV3Schema.$ref"),
        (
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
            "openAPIV3Schema.additionalProperties",
        ),
        ({"type": "object", "properties": {"a": STRING | {"pattern": "("}}}, "openAPIV3Schema.properties[a].pattern"),
        ({"type": "object", "properties": {"a": INTEGER | {"default": "x"}}}, "openAPIV3Schema.properties[a].default"),
        ({"type": "object", "oneOf": [{"type": "object"}]}, "openAPIV3Schema.oneOf[0].type"),
        ({"type": "object", "not": {"properties": {"a": {"default": 1}}}}, "openAPIV3Schema.not.properties[a].default"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": STRING, "x-kubernetes-list-type": "map"}},
            },
            "openAPIV3Schema.properties[a].x-kubernetes-list-map-keys",
        ),
        ({"type": "object", "properties": {"a": "string"}}, "openAPIV3Schema.properties[a]"),
        ("object", "openAPIV3Schema"),
        ({"type": "object", "properties": ["a"]}, "openAPIV3Schema.properties"),
        (
            {"type": "object", "properties": {"a": STRING | {"x-kubernetes-embedded-resource": True}}},
            "openAPIV3Schema.properties[a].type",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": STRING, "uniqueItems": True}}},
            "openAPIV3Schema.properties[a].uniqueItems",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"}},
            },
            "openAPIV3Schema.properties[a].x-kubernetes-list-type",
        ),
        (
            {"type": "object", "properties": {"a": KEYED | {"items": STRING}}},
            "openAPIV3Schema.properties[a].items.type",
        ),
        (
            {"type": "object", "properties": {"a": KEYED | {"items": {"type": "object"}}}},
            "openAPIV3Schema.properties[a].x-kubernetes-list-map-keys",
        ),
        ({"type": "object", "anyOf": ["a"]}, "openAPIV3Schema.anyOf[0]"),
        ({"type": "object", "allOf": [{"items": {"nullable": True}}]}, "openAPIV3Schema.allOf[0].items.nullable"),
        ({"type": "object", "allOf": [{"not": {"title": "x"}}]}, "openAPIV3Schema.allOf[0].not.title"),
    ],
)
def test_a_schema_that_is_not_structural_is_refused_by_place(schema: Any, field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        Schema.compile(schema)
    assert caught.value.field == field
