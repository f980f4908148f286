"""CustomResourceDefinitions from typed models: whatever a front end can read, a cluster can validate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Meta, inspect

from pliant.schemas import definition

TEMPLATE = Meta(extra={"definition": "PodTemplateSpec"}, extra_json_schema={"required": ["spec"]})
"""Marks a field that holds a pod template as Kubernetes defines it."""

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`; a priority above 0 shows it with `-o wide` only."""

    name: str
    type: str
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Where `kubectl scale` writes the wanted size and finds the present one."""

    spec: str
    status: str
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """Everything a cluster must know about one of our kinds."""

    group: str
    version: str
    versions: tuple[str, ...] = ()
    """Other versions it is served under, with the same fields."""
    kind: str
    plural: str
    description: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("pliant",)
    spec: Any
    status: Any
    """Struct types, or such types with annotations."""
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold between fields, in the API server's expression language; else `field` is to blame."""

    holds: str
    field: str = ""


def told(text: str, *, rules: Mapping[str, str | Rule] | None = None, **facts: Any) -> Meta:
    """What `kubectl explain` says about a field, and what the API server checks beyond its type.

    Rules come under the sentence shown when they are broken.
    """
    if rules:
        facts["x-kubernetes-validations"] = [_validation(said, rule) for said, rule in rules.items()]
    return Meta(description=" ".join(text.split()), extra_json_schema=facts or None)


def _validation(said: str, rule: str | Rule) -> dict[str, Any]:
    if isinstance(rule, str):
        return {"rule": rule, "message": said}
    return {"rule": rule.holds, "message": said, **_given(fieldPath=rule.field or None)}


def custom_resource_definition(kind: CustomKind) -> dict[str, Any]:
    """The CRD of a kind, with a full structural schema, columns and subresources."""
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {key: value for key, value in names.items() if value},
            "scope": "Namespaced",
            "versions": [_version(kind, name) for name in (kind.version, *kind.versions)],
        },
    }


def _version(kind: CustomKind, name: str) -> dict[str, Any]:
    schema = _root_schema(kind)
    if name != kind.version:
        _open_templates(schema)
    return {
        "name": name,
        "served": True,
        "storage": name == kind.version,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema},
        "subresources": _subresources(kind.scale),
    }


def structural(model: Any) -> dict[str, Any]:
    """The OpenAPI schema of a type, in the form CRDs demand."""
    return _schema(inspect.type_info(model))


def _root_schema(kind: CustomKind) -> dict[str, Any]:
    return {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(kind.spec),
            "status": structural(kind.status),
        },
    }


def _schema(shape: inspect.Type) -> dict[str, Any]:
    match shape:
        case inspect.Metadata(type=inner, extra_json_schema=stated, extra=extra):
            held = (extra or {}).get("definition")
            # First what is said about a field, for people; and what a model states beats what its type implies.
            return {**(stated or {}), **(_template(held) if held else _schema(inner)), **(stated or {})}
        case inspect.UnionType(types=members):
            [only] = [member for member in members if not isinstance(member, inspect.NoneType)]
            return _optional(_schema(only))
        case inspect.StructType(cls=cls, fields=fields):
            return {"description": " ".join((cls.__doc__ or "").split()), **_struct_schema(fields)}
        case inspect.DictType(value_type=value):
            entries = ANYTHING if isinstance(value, inspect.AnyType) else {"additionalProperties": _schema(value)}
            return {"type": "object", **entries}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema(item)}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [member.value for member in cls]}
        case inspect.IntType(ge=least, le=most):
            return {"type": "integer", **_given(minimum=least, maximum=most)}
        case inspect.StrType(pattern=pattern):
            return {"type": "string", **_given(pattern=pattern)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.AnyType():
            return dict(ANYTHING)
        case _:
            raise TypeError(f"no CRD schema for {shape}")


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" not in schema:
        return {**schema, "nullable": True}
    # Programs in Go write what is absent as an empty string. A null says the same, and the API server drops it.
    return {**schema, "enum": [*schema["enum"], ""]}


def _struct_schema(fields: tuple[inspect.Field, ...]) -> dict[str, Any]:
    """No defaults: what a user leaves out stays out of the stored object, and our later defaults reach it."""
    required = [field.encode_name for field in fields if field.required]
    properties = {field.encode_name: _schema(field.type) for field in fields}
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


def _template(name: str) -> dict[str, Any]:
    """A template as it stands inside our kinds: its metadata is only what it can hand on."""
    schema = definition(name)
    metadata = schema["properties"]["metadata"]["properties"]
    kept = ("annotations", "creationTimestamp", "finalizers", "generateName", "labels", "name", "namespace")
    schema["properties"]["metadata"]["properties"] = {key: metadata[key] for key in kept}
    _drop_defaults(schema)
    return schema


def _open_templates(schema: dict[str, Any]) -> None:
    """Leave templates to the version that is stored: two copies would not fit into what kubectl remembers."""
    for name, field in schema.get("properties", {}).items():
        if name == "template":
            described = {"type": "object", "description": field.get("description", ""), **ANYTHING}
            schema["properties"][name] = described
        else:
            _open_templates(field)
    if "additionalProperties" in schema:
        _open_templates(schema["additionalProperties"])


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Leave templates as they are written: one that a server fills in looks edited, to kubectl and to us.

    A list keyed by what may now be absent is no map any more.
    """
    schema.pop("default", None)
    for nested in (
        schema.get("items"),
        schema.get("additionalProperties"),
        *schema.get("properties", {}).values(),
    ):
        if nested is not None:
            _drop_defaults(nested)
    if not set(schema.get("x-kubernetes-list-map-keys", ())) <= set(schema.get("items", {}).get("required", ())):
        del schema["x-kubernetes-list-type"], schema["x-kubernetes-list-map-keys"]


def _column(column: Column) -> dict[str, Any]:
    extras = _given(
        description=column.description or None, format=column.format or None, priority=column.priority or None
    )
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **extras}


def _subresources(scale: ScalePaths | None) -> dict[str, Any]:
    status: dict[str, Any] = {"status": {}}
    if scale is None:
        return status
    paths = {
        "specReplicasPath": scale.spec,
        "statusReplicasPath": scale.status,
        "labelSelectorPath": scale.selector,
    }
    return {**status, "scale": paths}


def _given(**facts: Any) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value is not None}
