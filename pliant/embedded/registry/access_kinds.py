"""The kinds of access control: roles, bindings, and the reviews that are answered and not stored."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.registry.kinds import STANDARD_RESOURCE_VERBS, Kind
from pliant.embedded.registry.tables import AGE_COLUMN, NAME_COLUMN, CellRenderer, TableColumn, field_cell, make_column
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import PATH_SEGMENT_RULE

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_AUTHORIZATION_GROUP: Final = "authorization.k8s.io"
_AUTHENTICATION_GROUP: Final = "authentication.k8s.io"
_STRING: Final = {"type": "string"}
_ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}
_STRINGS: Final = {"type": "array", "items": _STRING, **_ATOMIC}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, **_ATOMIC}


_POLICY_RULE: Final = _object(
    apiGroups=_STRINGS, resources=_STRINGS, resourceNames=_STRINGS, nonResourceURLs=_STRINGS, verbs=_STRINGS
)
_ROLE_REF: Final = {**_object(apiGroup=_STRING, kind=_STRING, name=_STRING), "x-kubernetes-map-type": "atomic"}
_SUBJECT: Final = {
    **_object(apiGroup=_STRING, kind=_STRING, name=_STRING, namespace=_STRING),
    "x-kubernetes-map-type": "atomic",
}
_LABEL_SELECTOR: Final = {
    **_object(
        matchLabels={"type": "object", "additionalProperties": _STRING},
        matchExpressions=_list_of(_object(key=_STRING, operator=_STRING, values=_STRINGS)),
    ),
    "x-kubernetes-map-type": "atomic",
}
_ROLE: Final = _object(rules=_list_of(_POLICY_RULE))
_CLUSTER_ROLE: Final = _object(
    rules=_list_of(_POLICY_RULE), aggregationRule=_object(clusterRoleSelectors=_list_of(_LABEL_SELECTOR))
)
_BINDING: Final = _object(roleRef=_ROLE_REF, subjects=_list_of(_SUBJECT))
_SELECTOR_ATTRIBUTES: Final = _object(
    rawSelector=_STRING, requirements=_list_of(_object(key=_STRING, operator=_STRING, values=_STRINGS))
)
_ACCESS_ATTRIBUTES: Final = {
    "resourceAttributes": _object(
        **dict.fromkeys(("group", "name", "namespace", "resource", "subresource", "verb", "version"), _STRING),
        fieldSelector=_SELECTOR_ATTRIBUTES,
        labelSelector=_SELECTOR_ATTRIBUTES,
    ),
    "nonResourceAttributes": _object(path=_STRING, verb=_STRING),
}
_EXTRA: Final = {"type": "object", "additionalProperties": _STRINGS}
_ACCESS_STATUS: Final = _object(
    allowed={"type": "boolean"}, denied={"type": "boolean"}, reason=_STRING, evaluationError=_STRING
)
_SELF_ACCESS_REVIEW: Final = _object(spec=_object(**_ACCESS_ATTRIBUTES), status=_ACCESS_STATUS)
_ACCESS_REVIEW: Final = _object(
    spec=_object(**_ACCESS_ATTRIBUTES, user=_STRING, uid=_STRING, groups=_STRINGS, extra=_EXTRA), status=_ACCESS_STATUS
)
_RULES_REVIEW: Final = _object(
    spec=_object(namespace=_STRING),
    status=_object(
        resourceRules=_list_of(_object(apiGroups=_STRINGS, resources=_STRINGS, resourceNames=_STRINGS, verbs=_STRINGS)),
        nonResourceRules=_list_of(_object(nonResourceURLs=_STRINGS, verbs=_STRINGS)),
        incomplete={"type": "boolean"},
        evaluationError=_STRING,
    ),
)
_SELF_REVIEW: Final = _object(
    status=_object(userInfo=_object(username=_STRING, uid=_STRING, groups=_STRINGS, extra=_EXTRA))
)


def rbac_kinds() -> tuple[Kind, ...]:
    created = make_column(
        "Created At", field_cell("metadata.creationTimestamp", None), "Time of creation.", column_type="date"
    )
    role = make_column("Role", _role_cell, "The role that the binding grants.")
    subjects = tuple(
        make_column(f"{kind}s", _subjects_cell(kind), f"{kind}s in the binding", wide=True)
        for kind in ("User", "Group", "ServiceAccount")
    )
    bindings = (NAME_COLUMN, role, AGE_COLUMN, *subjects)
    return (
        _access_kind(_RBAC_GROUP, "ClusterRole", _CLUSTER_ROLE, namespaced=False, columns=(NAME_COLUMN, created)),
        _access_kind(_RBAC_GROUP, "ClusterRoleBinding", _BINDING, namespaced=False, columns=bindings),
        _access_kind(_RBAC_GROUP, "Role", _ROLE, namespaced=True, columns=(NAME_COLUMN, created)),
        _access_kind(_RBAC_GROUP, "RoleBinding", _BINDING, namespaced=True, columns=bindings),
    )


def review_kinds() -> tuple[Kind, ...]:
    return (
        _access_kind(_AUTHENTICATION_GROUP, "SelfSubjectReview", _SELF_REVIEW, namespaced=False, verbs=("create",)),
        _review_kind("LocalSubjectAccessReview", _ACCESS_REVIEW, namespaced=True),
        _review_kind("SelfSubjectAccessReview", _SELF_ACCESS_REVIEW),
        _review_kind("SelfSubjectRulesReview", _RULES_REVIEW),
        _review_kind("SubjectAccessReview", _ACCESS_REVIEW),
    )


def _review_kind(kind: str, schema: dict[str, Any], *, namespaced: bool = False) -> Kind:
    return _access_kind(_AUTHORIZATION_GROUP, kind, schema, namespaced=namespaced, verbs=("create",))


def _access_kind(
    group: str,
    kind: str,
    schema: dict[str, Any],
    *,
    namespaced: bool,
    columns: tuple[TableColumn, ...] = (),
    verbs: tuple[str, ...] = STANDARD_RESOURCE_VERBS,
) -> Kind:
    return Kind(
        group=group,
        version="v1",
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        list_kind=f"{kind}List",
        schema=Schema(schema, PATH_SEGMENT_RULE, is_builtin=True),
        columns=columns,
        verbs=verbs,
    )


def _subjects_cell(kind: str) -> CellRenderer:
    def cell(binding: Any, now: object) -> str:
        subjects = [each for each in binding.get("subjects") or () if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace', '')}/{each.get('name', '')}" for each in subjects)
        return ", ".join(str(each.get("name", "")) for each in subjects)

    return cell


def _role_cell(binding: Any, now: object) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"
