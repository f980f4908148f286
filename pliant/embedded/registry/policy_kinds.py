"""The kinds ValidatingAdmissionPolicy and ValidatingAdmissionPolicyBinding."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.schema_rules import drop_required
from pliant.embedded.registry.tables import AGE_COLUMN, NAME_COLUMN, TableColumn, make_column
from pliant.embedded.schema import Schema
from pliant.schemas import load_kubernetes_schema

POLICY_GROUP: Final = "admissionregistration.k8s.io"


def policy_kinds() -> tuple[Kind, ...]:
    return (
        _policy_kind(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            _POLICY_COLUMNS,
            subresources=("status",),
            has_status=True,
            has_generation=True,
        ),
        _policy_kind(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            _BINDING_COLUMNS,
            has_generation=True,
        ),
    )


def _policy_kind(kind: str, plural: str, columns: tuple[TableColumn, ...], **kind_fields: Any) -> Kind:
    return Kind(
        group=POLICY_GROUP,
        version="v1",
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=False,
        list_kind=f"{kind}List",
        categories=("api-extensions",),
        schema=Schema(partial(_load_schema, kind), is_builtin=True),
        columns=columns,
        **kind_fields,
    )


def _load_schema(kind: str) -> Mapping[str, Any]:
    """Return the published schema without required fields, which the validators of policies require."""
    openapi = load_kubernetes_schema(kind)
    drop_required(openapi["properties"]["spec"])
    return openapi


def _validations_cell(policy: Mapping[str, Any], now: datetime) -> int:
    return len((policy.get("spec") or {}).get("validations") or ())


def _param_kind_cell(policy: Mapping[str, Any], now: datetime) -> str:
    kind = (policy.get("spec") or {}).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _policy_name_cell(binding: Mapping[str, Any], now: datetime) -> str:
    return str((binding.get("spec") or {}).get("policyName", ""))


def _param_ref_cell(binding: Mapping[str, Any], now: datetime) -> str:
    ref = (binding.get("spec") or {}).get("paramRef")
    if not ref:
        return "<unset>"
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    return "<selector>"


_POLICY_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Validations", _validations_cell, "Number of validation rules.", column_type="integer"),
    make_column("ParamKind", _param_kind_cell, "Kind of the parameters."),
    AGE_COLUMN,
)
_BINDING_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("PolicyName", _policy_name_cell, "The policy that the binding applies."),
    make_column("ParamRef", _param_ref_cell, "The parameters of the policy."),
    AGE_COLUMN,
)
