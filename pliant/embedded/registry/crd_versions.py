"""Validation of the versions of a CRD, with the field paths and reasons of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.crd_schemas import find_schema_errors
from pliant.embedded.schema.field_errors import invalid_field, required_field
from pliant.embedded.schema.metadata import DNS_1035_LABEL_RULE, name_problem
from pliant.embedded.schema.rules.field_paths import find_field_schema
from pliant.embedded.storage.stored_objects import Object

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES: Final = ("boolean", "integer", "string")
_MAX_SELECTABLE_FIELDS: Final = 8
_MAX_WARNING_CHARACTERS: Final = 256
_SHARED_FIELDS: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""The fields of versions, and the names that errors have if all versions have the same value: those of v1beta1."""


def find_version_errors(spec: Object, old_spec: Object | None) -> Iterator[FieldError]:
    """Yield the errors of the versions of a CRD."""
    versions: list[Object] = spec.get("versions") or []
    shared = {field for field in _SHARED_FIELDS if len({_encode(version.get(field)) for version in versions}) == 1}
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name") or ""
        if problem := name_problem(name, DNS_1035_LABEL_RULE) or ("" if name else DNS_1035_LABEL_RULE.message):
            yield invalid_field(f"{path}.name", name, problem)
        if _openapi_of(version) is None:
            yield required_field(f"{path}.schema.openAPIV3Schema", "schemas are required")
        yield from _find_warning_errors(version, f"{path}.deprecationWarning")
    old_schemas = [_openapi_of(version) for version in (old_spec or {}).get("versions") or ()]
    for field, find_errors in _FINDERS.items():
        if field in shared and versions:
            yield from find_errors(_Part(versions, field, f"spec.{_SHARED_FIELDS[field]}", shared, old_schemas))
        elif versions:
            for index, version in enumerate(versions):
                path = f"spec.versions[{index}].{field}"
                yield from find_errors(_Part([version], field, path, shared, old_schemas))
    if len({version.get("name") for version in versions}) != len(versions):
        yield invalid_field("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_field("spec.versions", versions, "must have exactly one version marked as storage version")
    first = (versions[0].get("name") or "") if versions else ""
    if first and (problem := name_problem(first, DNS_1035_LABEL_RULE)):
        yield invalid_field("spec.version", first, problem)  # the field of v1beta1 that the first version sets


class _Part:
    """A field of one version, or of all versions if they share its value."""

    def __init__(
        self, versions: Sequence[Object], field: str, path: str, shared: set[str], old_schemas: Sequence[Any]
    ) -> None:
        self.versions = versions
        self.value = versions[0].get(field)
        self.path = path
        self.is_shared = field in shared
        self.shares_schema = "schema" in shared
        self.old_schemas = old_schemas

    @property
    def openapi(self) -> Any:
        return _openapi_of(self.versions[0])


def _encode(value: Any) -> str:
    return repr(_sorted(value)) if value else ""


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _sorted(value[name])) for name in sorted(value)]
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _openapi_of(version: Object) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _find_warning_errors(version: Object, path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid_field(path, warning, "can only be set for deprecated versions")
    elif len(warning.encode()) > _MAX_WARNING_CHARACTERS:
        yield invalid_field(path, warning, f"must be <= {_MAX_WARNING_CHARACTERS} characters long")
    elif not warning:
        yield invalid_field(path, warning, "must not be an empty string")
    elif not warning.isprintable():
        yield invalid_field(path, warning, "must only contain printable UTF-8 characters")


def _find_schema_errors(part: _Part) -> Iterator[FieldError]:
    if part.openapi is not None:
        has_status = any((version.get("subresources") or {}).get("status") is not None for version in part.versions)
        is_unchanged = part.openapi in part.old_schemas
        yield from find_schema_errors(
            part.openapi, f"{part.path}.openAPIV3Schema", has_status=has_status, is_unchanged=is_unchanged
        )


def _find_subresource_errors(part: _Part) -> Iterator[FieldError]:
    scale = (part.value or {}).get("scale")
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        path, value = f"{part.path}.scale.{field}", scale.get(field) or ""
        if not value:
            if field != "labelSelectorPath":
                yield required_field(path)
        elif not value.startswith("."):
            yield invalid_field(path, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            yield invalid_field(path, value, f"should be a json path under {' or '.join(each[:-1] for each in roots)}")


def _find_column_errors(part: _Part) -> Iterator[FieldError]:
    for index, column in enumerate(part.value or ()):
        path = f"{part.path}[{index}]"
        if not column.get("name"):
            yield required_field(f"{path}.name")
        column_type, column_format = column.get("type") or "", column.get("format") or ""
        if not column_type:
            yield required_field(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column_type not in _COLUMN_TYPES:
            yield invalid_field(f"{path}.type", column_type, f"must be one of {','.join(_COLUMN_TYPES)}")
        if column_format and column_format not in _COLUMN_FORMATS:
            yield invalid_field(f"{path}.format", column_format, f"must be one of {','.join(_COLUMN_FORMATS)}")
        json_path = column.get("jsonPath") or ""
        if not json_path:
            yield required_field(f"{path}.JSONPath")
        elif not json_path.startswith("."):
            yield invalid_field(f"{path}.JSONPath", json_path, "must be a simple json path starting with .")


def _find_selectable_errors(part: _Part) -> Iterator[FieldError]:
    if not part.value:
        return
    # kube-apiserver moves a schema that all versions share elsewhere before it looks for it.
    if part.openapi is None or part.shares_schema != part.is_shared:
        yield invalid_field(part.path, "", "may only be set when the schema is included")
        return
    known: set[str] = set()
    for index, field in enumerate(part.value):
        path, json_path = f"{part.path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            yield required_field(path)
            continue
        found = find_field_schema(json_path, part.openapi) if "[" not in json_path else None
        if found is None:
            yield invalid_field(path, json_path, "is an invalid path")
            continue
        if json_path.startswith((".metadata.", ".metadata[")) or json_path == ".metadata":
            yield invalid_field(path, json_path, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            yield invalid_field(path, json_path, "must point to a field of type string, boolean or integer")
        if json_path in known:
            yield FieldError.of(path, FieldErrorType.DUPLICATE, json_path, "")
        known.add(json_path)
    if len(known) > _MAX_SELECTABLE_FIELDS:
        detail = f"must have at most {_MAX_SELECTABLE_FIELDS} items"
        yield FieldError.of(part.path, FieldErrorType.TOO_MANY, len(known), detail)


_FINDERS: Final[Mapping[str, Callable[[_Part], Iterator[FieldError]]]] = {
    "schema": _find_schema_errors,
    "subresources": _find_subresource_errors,
    "additionalPrinterColumns": _find_column_errors,
    "selectableFields": _find_selectable_errors,
}
