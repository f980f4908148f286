"""Generate CustomResourceDefinitions from typed structs, so that the API server validates what front ends decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Meta, inspect

from pliant.schemas import load_kubernetes_schema

IGNORED_KEY = "ignored"
"""The key in the metadata of a field that has no effect; the value is the advice to the user."""
POD_TEMPLATE_MARKER = Meta(extra={"definition": "PodTemplateSpec"}, extra_json_schema={"required": ["spec"]})
"""Marks a field that holds a Kubernetes PodTemplateSpec."""

PRESERVE_UNKNOWN_FIELDS = {"x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """A column of `kubectl get`. Columns with a priority above 0 appear with `-o wide` only."""

    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdScalePaths:
    """The JSON paths of the scale subresource."""

    spec_path: str
    status_path: str
    selector_path: str


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A CEL validation rule and, optionally, the path of the field that a violation is reported for."""

    expression: str
    field_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """The definition of a custom resource kind."""

    group: str
    version: str
    other_versions: tuple[str, ...] = ()
    """Additional served versions, with the same fields."""
    kind: str
    description: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("pliant",)
    spec_type: Any
    status_type: Any
    printer_columns: tuple[PrinterColumn, ...] = ()
    scale_paths: CrdScalePaths | None = None
    conditions_path: str = ".status.conditions"
    """The JSON path of the conditions; empty if the kind has none."""
    rules: Mapping[str, ValidationRule] = field(default_factory=dict)
    """Validation rules of the whole object by error message."""

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


def field_doc(
    description: str,
    *,
    rules: Mapping[str, str | ValidationRule] | None = None,
    ignored: str = "",
    **schema_properties: Any,
) -> Meta:
    """Return the description, CEL rules and additional schema properties of a field.

    `rules` maps the error message of each rule to the rule. `ignored` is for a field that has no effect: why, or what
    to set instead. A job that sets the field gets a warning.
    """
    schema_properties |= _validations(rules or {})
    text = " ".join(description.split()) + (f" Ignored: {ignored}." if ignored else "")
    extra = {IGNORED_KEY: ignored} if ignored else None
    return Meta(description=text, extra_json_schema=schema_properties or None, extra=extra)


def _validations(rules: Mapping[str, str | ValidationRule]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [_validation_entry(*each) for each in rules.items()]} if rules else {}


def _validation_entry(message: str, rule: str | ValidationRule) -> dict[str, Any]:
    if isinstance(rule, str):
        return {"rule": rule, "message": message}
    return {"rule": rule.expression, "message": message, **_without_none(fieldPath=rule.field_path or None)}


def build_crd(kind: CustomKind) -> dict[str, Any]:
    """Return the CRD of a kind, with a structural schema, printer columns and subresources."""
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
            "versions": [_version_entry(kind, name) for name in (kind.version, *kind.other_versions)],
        },
    }


def _version_entry(kind: CustomKind, version: str) -> dict[str, Any]:
    return {
        "name": version,
        "served": True,
        "storage": version == kind.version,
        "additionalPrinterColumns": [*map(_printer_column_entry, (*kind.printer_columns, *_rejected_column(kind)))],
        "schema": {"openAPIV3Schema": _root_schema(kind)},
        "subresources": _subresources(kind.scale_paths),
    }


def _rejected_column(kind: CustomKind) -> Iterator[PrinterColumn]:
    """Yield the column that shows whether the operator continues with an earlier spec."""
    if kind.conditions_path:
        path = f'{kind.conditions_path}[?(@.type=="SpecRejected")].status'
        yield PrinterColumn(
            name="Rejected", type="string", json_path=path, description="Whether the latest edit was rejected."
        )


def structural_schema(struct_type: Any) -> dict[str, Any]:
    """Return the structural OpenAPI schema of a type."""
    return _schema_of_type(inspect.type_info(struct_type))


def _root_schema(kind: CustomKind) -> dict[str, Any]:
    return {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(kind.spec_type),
            "status": structural_schema(kind.status_type),
        },
        **_validations(kind.rules),
    }


def _schema_of_type(type_info: inspect.Type) -> dict[str, Any]:
    match type_info:
        case inspect.Metadata(type=inner, extra_json_schema=explicit, extra=extra):
            definition = (extra or {}).get("definition")
            schema = _pod_template_schema(definition) if definition else _schema_of_type(inner)
            # Twice: descriptions come first in the output, and explicit properties override those of the type.
            return {**(explicit or {}), **schema, **(explicit or {})}
        case inspect.UnionType(types=members):
            [not_none] = [member for member in members if not isinstance(member, inspect.NoneType)]
            return _nullable_schema(_schema_of_type(not_none))
        case inspect.StructType(cls=cls, fields=fields):
            return {"description": " ".join((cls.__doc__ or "").split()), **_struct_schema(fields)}
        case inspect.DictType(value_type=value):
            is_any = isinstance(value, inspect.AnyType)
            values = PRESERVE_UNKNOWN_FIELDS if is_any else {"additionalProperties": _schema_of_type(value)}
            return {"type": "object", **values}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema_of_type(item)}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [member.value for member in cls]}
        case inspect.IntType(ge=minimum, le=maximum):
            return {"type": "integer", **_without_none(minimum=minimum, maximum=maximum)}
        case inspect.StrType(pattern=pattern):
            return {"type": "string", **_without_none(pattern=pattern)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.AnyType():
            return dict(PRESERVE_UNKNOWN_FIELDS)
        case _:
            raise TypeError(f"no CRD schema for {type_info}")


def _nullable_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" not in schema:
        return {**schema, "nullable": True}
    # Go clients write an empty string for an absent value. The API server drops nulls of fields that are not nullable.
    return {**schema, "enum": [*schema["enum"], ""]}


def _struct_schema(fields: tuple[inspect.Field, ...]) -> dict[str, Any]:
    # No defaults: fields that the user omits stay absent from the stored object, so that later defaults apply to them.
    required = [field.encode_name for field in fields if field.required]
    properties = {field.encode_name: _schema_of_type(field.type) for field in fields}
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


def _pod_template_schema(definition_name: str) -> dict[str, Any]:
    """Return the schema of a pod template, with the metadata fields that pods inherit and without defaults."""
    schema = load_kubernetes_schema(definition_name)
    metadata = schema["properties"]["metadata"]["properties"]
    inherited = ("annotations", "creationTimestamp", "finalizers", "generateName", "labels", "name", "namespace")
    schema["properties"]["metadata"]["properties"] = {key: metadata[key] for key in inherited}
    _drop_defaults(schema)
    return schema


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Remove defaults: a template that the API server completes looks edited to kubectl and to the operator.

    Lists whose map keys are no longer required become atomic lists.
    """
    schema.pop("default", None)
    for nested in (schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()):
        if nested is not None:
            _drop_defaults(nested)
    if not set(schema.get("x-kubernetes-list-map-keys", ())) <= set(schema.get("items", {}).get("required", ())):
        del schema["x-kubernetes-list-type"], schema["x-kubernetes-list-map-keys"]


def _printer_column_entry(column: PrinterColumn) -> dict[str, Any]:
    extras = _without_none(
        description=column.description or None, format=column.format or None, priority=column.priority or None
    )
    return {"name": column.name, "type": column.type, "jsonPath": column.json_path, **extras}


def _subresources(scale: CrdScalePaths | None) -> dict[str, Any]:
    if scale is None:
        return {"status": {}}
    paths = {
        "specReplicasPath": scale.spec_path,
        "statusReplicasPath": scale.status_path,
        "labelSelectorPath": scale.selector_path,
    }
    return {"status": {}, "scale": paths}


def _without_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
