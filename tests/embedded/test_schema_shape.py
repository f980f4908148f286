from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.embedded.registry.builtin_kinds import builtin_kinds
from pliant.embedded.schema import Schema, deep_copy

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def schema_of(**properties: Any) -> Schema:
    spec = {"type": "object", "properties": properties}
    return Schema.compile({"type": "object", "properties": {"spec": spec}})


def test_missing_fields_get_their_defaults_however_deep() -> None:
    group = {"type": "object", "properties": {"replicas": INTEGER | {"default": 1}}}
    schema = schema_of(
        policy=STRING | {"default": "None"},
        groups={"type": "object", "additionalProperties": group},
        list={"type": "array", "items": group},
        limits={"type": "object", "default": {}, "properties": {"max": INTEGER | {"default": 3}}},
    )
    obj: dict[str, Any] = {"spec": {"groups": {"worker": {}, "ps": {"replicas": 2}}, "list": [{}]}}
    schema.default(obj)
    assert obj["spec"] == {
        "policy": "None",
        "groups": {"worker": {"replicas": 1}, "ps": {"replicas": 2}},
        "list": [{"replicas": 1}],
        "limits": {"max": 3},
    }


def test_a_default_is_not_made_where_its_parent_is_missing() -> None:
    schema = schema_of(inner={"type": "object", "properties": {"a": INTEGER | {"default": 1}}})
    obj: dict[str, Any] = {"spec": {}}
    schema.default(obj)
    assert obj == {"spec": {}}


def test_objects_never_share_a_default() -> None:
    schema = schema_of(tags={"type": "array", "items": STRING, "default": ["a"]})
    one: dict[str, Any] = {"spec": {}}
    other: dict[str, Any] = {"spec": {}}
    schema.default(one)
    one["spec"]["tags"].append("b")
    schema.default(other)
    assert other["spec"]["tags"] == ["a"]


def test_null_means_unset_unless_the_field_is_nullable() -> None:
    schema = schema_of(
        plain=STRING, defaulted=INTEGER | {"default": 1}, nullable=STRING | {"nullable": True, "default": "x"}
    )
    for order in (("prune", "default"), ("default", "prune")):
        obj: dict[str, Any] = {"spec": {"plain": None, "defaulted": None, "nullable": None}}
        for step in order:
            getattr(schema, step)(obj)
        assert obj["spec"] == {"defaulted": 1, "nullable": None}
        assert schema.validate(obj) == []


def test_unknown_fields_are_cut_and_named() -> None:
    group = {"type": "object", "properties": {"replicas": INTEGER}}
    schema = schema_of(groups={"type": "object", "additionalProperties": group}, list={"type": "array", "items": group})
    obj: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {"name": "a", "colour": "red"},
        "spec": {"groups": {"worker": {"replicsa": 1}}, "list": [{"replicas": 1}, {"x": 1, "y": 2}], "tpyo": {}},
        "other": 1,
    }
    cut = schema.prune(obj)
    assert sorted(cut) == [
        "metadata.colour",
        "other",
        "spec.groups.worker.replicsa",
        "spec.list[1].x",
        "spec.list[1].y",
        "spec.tpyo",
    ]
    assert obj["spec"] == {"groups": {"worker": {}}, "list": [{"replicas": 1}, {}]}
    assert schema.prune(obj) == []


def test_free_form_parts_keep_everything_but_known_fields_below_are_still_pruned() -> None:
    known = {"type": "object", "properties": {"a": STRING}}
    schema = schema_of(
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": known}},
        any={"type": "object", "additionalProperties": True},
        raw={"x-kubernetes-preserve-unknown-fields": True},
    )
    obj: dict[str, Any] = {
        "spec": {"free": {"x": {"y": None}, "known": {"b": 1}}, "any": {"z": {"q": 1}}, "raw": [{"a": None}]}
    }
    assert schema.prune(obj) == ["spec.free.known.b"]
    assert obj["spec"] == {"free": {"x": {"y": None}, "known": {}}, "any": {"z": {"q": 1}}, "raw": [{"a": None}]}


def test_garbage_survives_pruning_and_defaulting_so_that_validation_can_tell_it() -> None:
    pods = next(kind.schema for kind in builtin_kinds() if kind.kind == "Pod")
    assert pods is not None
    obj: dict[str, Any] = {"metadata": "x", "spec": {"containers": {"a": 1}, "volumes": ["b"]}}
    assert pods.prune(obj) == []
    pods.default(obj)
    fields = {problem.field for problem in pods.validate(obj)}
    assert fields == {"metadata", "spec.containers", "spec.volumes[0]"}


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "b"]),
    "integer": st.integers(-3, 3),
    "boolean": st.booleans(),
}


@st.composite
def _scalar_schemas(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(_SCALARS)))
    schema: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        schema["default"] = draw(_SCALARS[kind])
    if draw(st.booleans()):
        schema["nullable"] = True
    return schema


_NAMES = st.sampled_from(["a", "b", "c", "d"])
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _scalar_schemas(),
    lambda inner: st.one_of(
        st.dictionaries(_NAMES, inner, max_size=3).map(lambda props: {"type": "object", "properties": props}),
        inner.map(lambda schema: {"type": "object", "additionalProperties": schema}),
        inner.map(lambda schema: {"type": "array", "items": schema}),
    ),
    max_leaves=8,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)


def _values_of_type(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of the right type, with unknown fields, missing fields and nulls where they may be."""
    kind = schema["type"]
    if kind == "array":
        return st.lists(_values_of_type(schema["items"]), max_size=2)
    if kind == "object" and "additionalProperties" in schema:
        return st.dictionaries(_NAMES, st.none() | _values_of_type(schema["additionalProperties"]), max_size=2)
    if kind == "object":
        members = {name: st.none() | _values_of_type(child) for name, child in schema.get("properties", {}).items()}
        return st.fixed_dictionaries({}, optional={**members, "unknown": VALUES})
    return _SCALARS[kind]


ROOTS: st.SearchStrategy[dict[str, Any]] = SCHEMAS.map(
    lambda schema: {"type": "object", "properties": {"spec": schema}}
)


@given(ROOTS, VALUES)
def test_defaulting_and_pruning_twice_change_nothing_more(openapi: dict[str, Any], value: Any) -> None:
    schema = Schema.compile(openapi)
    obj = {"spec": value}
    schema.prune(obj)
    schema.default(obj)
    once = deep_copy(obj)
    schema.default(obj)
    assert schema.prune(obj) == []
    assert obj == once


@example(
    {
        "type": "object",
        "properties": {"spec": {"type": "object", "additionalProperties": {"type": "boolean", "default": False}}},
    },
    {"a": None},
)
@given(ROOTS, VALUES)
def test_pruning_and_defaulting_may_come_in_either_order(openapi: dict[str, Any], value: Any) -> None:
    schema = Schema.compile(openapi)
    one, other = {"spec": deep_copy(value)}, {"spec": deep_copy(value)}
    schema.prune(one)
    schema.default(one)
    schema.default(other)
    schema.prune(other)
    assert one == other


_TYPES: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}


def _is_valid(schema: dict[str, Any], value: Any) -> bool:
    """Validation in its plainest form, to compare with."""
    if value is None:
        return bool(schema.get("nullable"))
    if type(value) is not _TYPES[schema["type"]]:
        return False
    if schema["type"] == "array":
        return all(_is_valid(schema["items"], entry) for entry in value)
    if schema["type"] == "object":
        of = schema.get("properties", {})
        return all(_is_valid(of.get(name) or schema["additionalProperties"], entry) for name, entry in value.items())
    return True


@given(ROOTS, VALUES)
def test_validation_agrees_with_its_plainest_form(openapi: dict[str, Any], value: Any) -> None:
    schema = Schema.compile(openapi)
    obj = {"spec": value}
    schema.prune(obj)
    schema.default(obj)
    fit = "spec" not in obj or _is_valid(openapi["properties"]["spec"], obj["spec"])
    assert (schema.validate(obj) == []) is fit


@given(st.data())
def test_what_fits_is_sound_once_pruned_and_defaulted(data: st.DataObject) -> None:
    openapi = data.draw(ROOTS)
    schema = Schema.compile(openapi)
    obj = {"spec": data.draw(_values_of_type(openapi["properties"]["spec"]))}
    schema.prune(obj)
    schema.default(obj)
    assert schema.validate(obj) == []
