"""Compiles the expressions of a ValidatingAdmissionPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pliant.embedded.cel import types
from pliant.embedded.cel.environment import Environment, Program, compile_expression
from pliant.embedded.cel.literals import find_conversion_error
from pliant.embedded.cel.source_errors import CompileError
from pliant.embedded.cel.types import Type
from pliant.embedded.schema.rules.declared_types import DeclaredType, Structs, declare_type

INSTANTIATION_PROBLEM: Final = "program instantiation failed: "
_VARIABLES: Final = Type("struct", "kubernetes.variables")
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_TEXT_MAP: Final = {"type": "object", "additionalProperties": _TEXT}
_TIME: Final = {"type": "string", "format": "date-time"}
_INTEGER: Final = {"type": "integer"}
_ANYTHING: Final = {"x-kubernetes-int-or-string": True}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_KIND: Final = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE: Final = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_REQUEST_SCHEMA: Final = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(
        username=_TEXT, uid=_TEXT, groups=_TEXTS, extra={"type": "object", "additionalProperties": _TEXTS}
    ),
    dryRun={"type": "boolean"},
    options=_ANYTHING,
)
_NAMESPACE_SCHEMA: Final = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_TEXT_MAP,
        annotations=_TEXT_MAP,
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds=_INTEGER,
        deletionTimestamp=_TIME,
        generation=_INTEGER,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(
        conditions={
            "type": "array",
            "items": _object(status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT),
        },
        phase=_TEXT,
    ),
)


@lru_cache(maxsize=1)
def _declare_variables() -> tuple[DeclaredType, DeclaredType, Structs]:
    structs: Structs = {}
    request = declare_type(_REQUEST_SCHEMA, "kubernetes.AdmissionRequest", structs)
    namespace = declare_type(_NAMESPACE_SCHEMA, "kubernetes.Namespace", structs)
    assert request is not None
    assert namespace is not None
    return request, namespace, structs


def convert_request(request: Mapping[str, Any]) -> Any:
    return _declare_variables()[0].convert(request)


def convert_namespace(namespace: Mapping[str, Any] | None) -> Any:
    return None if namespace is None else _declare_variables()[1].convert(namespace)


class PolicyScope:
    """What the expressions of a policy may refer to; each variable may refer to those before it."""

    def __init__(self, *, has_params: bool, has_variables: bool = True) -> None:
        self._has_params = has_params
        self._has_variables = has_variables
        self._variable_types: dict[str, Type] = {}

    def add_variable(self, name: str, value_type: Type) -> None:
        self._variable_types[name] = value_type

    def compile(self, source: str, *allowed: Type, has_authorizer: bool = True) -> Program | str:
        """Return the program of an expression with one of the allowed types, or why it is invalid."""
        try:
            program = compile_expression(source, self._environment(has_authorizer=has_authorizer))
        except CompileError as error:
            return f"compilation failed: {error}"
        if allowed and program.result_type not in allowed:
            names = str(allowed[0]) if len(allowed) == 1 else f"one of [{' '.join(each.name for each in allowed[:2])}]"
            return f"must evaluate to {names} but got {program.result_type}"
        problem = find_conversion_error(program.expression)
        return f"{INSTANTIATION_PROBLEM}{problem}" if problem else program

    def _environment(self, *, has_authorizer: bool) -> Environment:
        request, namespace, _ = _declare_variables()
        variables = {
            "object": types.DYN,
            "oldObject": types.DYN,
            "request": request.type,
            "namespaceObject": namespace.type,
        }
        if self._has_variables:
            variables["variables"] = _VARIABLES
        if self._has_params:
            variables["params"] = types.DYN
        if has_authorizer:
            variables |= {"authorizer": types.AUTHORIZER, "authorizer.requestResource": types.RESOURCE_CHECK}
        return Environment(variables, self._find_field_type)

    def _find_field_type(self, struct: str, field: str) -> Type | None:
        if struct == _VARIABLES.name:
            return self._variable_types.get(field)
        fields = _declare_variables()[2].get(struct)
        declared = fields.find(field) if fields is not None else None
        return declared.type if declared is not None else None


@dataclass(frozen=True, slots=True)
class Validation:
    definition: Mapping[str, Any]
    program: Program | str
    message: Program | str | None


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    conditions: list[tuple[str, Program | str]]
    variables: dict[str, Program | str]
    validations: list[Validation]
    annotations: list[tuple[str, Program | str]]


def compile_policy(spec: Mapping[str, Any]) -> CompiledPolicy:
    """Return the programs of a policy, with the reason in place of an invalid one."""
    has_params = spec.get("paramKind") is not None
    conditions_scope = PolicyScope(has_params=has_params, has_variables=False)
    scope = PolicyScope(has_params=has_params)
    conditions = [
        (each["expression"], conditions_scope.compile(each["expression"], types.BOOL))
        for each in spec.get("matchConditions") or ()
    ]
    variables: dict[str, Program | str] = {}
    for each in spec.get("variables") or ():
        program = scope.compile(each["expression"])
        variables[each["name"]] = program
        scope.add_variable(each["name"], types.DYN if isinstance(program, str) else program.result_type)
    validations = [_compile_validation(each, scope) for each in spec.get("validations") or ()]
    annotations = [
        (each["valueExpression"], scope.compile(each["valueExpression"], types.STRING, types.NULL))
        for each in spec.get("auditAnnotations") or ()
    ]
    return CompiledPolicy(conditions, variables, validations, annotations)


def _compile_validation(definition: Mapping[str, Any], scope: PolicyScope) -> Validation:
    source = definition.get("messageExpression")
    message = scope.compile(source, types.STRING, has_authorizer=False) if source else None
    return Validation(definition, scope.compile(definition["expression"], types.BOOL), message)
