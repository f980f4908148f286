"""Evaluates all policies that apply to a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes
from pliant.embedded.apiserver.authorization.authorizer import Authorizer
from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.apiserver.policies.compiled_policy import (
    CompiledPolicy,
    compile_policy,
    convert_namespace,
    convert_request,
)
from pliant.embedded.apiserver.policies.evaluation import Denial, evaluate_policy
from pliant.embedded.apiserver.policies.matching import find_matching_kind, find_namespace
from pliant.embedded.apiserver.policies.params import ParamKindError, ParamsError, find_params
from pliant.embedded.apiserver.policies.plugin import BINDINGS_RESOURCE_KEY
from pliant.embedded.cel.functions.authorizer import AuthorizerValue, DecisionValue, PathCheckValue, ResourceCheckValue
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.policy_kinds import POLICY_GROUP
from pliant.embedded.schema import deep_copy
from pliant.embedded.storage.stored_objects import Object, ObjectKey
from pliant.errors import ApiError, Forbidden, Invalid

_POLICIES_RESOURCE_KEY: Final = f"{POLICY_GROUP}/validatingadmissionpolicies"
_CODES: Final = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class PolicyDispatcher:
    """Applies the stored policies; they are compiled once for each version."""

    def __init__(self, registry: KindRegistry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._compiled: dict[str, tuple[int, Object, CompiledPolicy]] = {}

    def dispatch(self, request: AdmissionRequest) -> None:
        """Raise an `ApiError` for the first denial of a policy, and add the warnings of all."""
        denial: ApiError | None = None
        bindings = request.transaction.list_objects(BINDINGS_RESOURCE_KEY)
        for binding in (record.decode() for record in bindings):
            name, spec = binding["metadata"]["name"], binding["spec"]
            for found in self._find_denials(spec, request):
                denied = f"'{spec['policyName']}'" + ("" if found.is_of_policy else f" with binding '{name}'")
                if denial is None and (found.is_unconditional or "Deny" in spec["validationActions"]):
                    message = f"ValidatingAdmissionPolicy {denied} denied request: {found.message}"
                    denial = _denial_error(request, message, found.reason)
                if not found.is_unconditional and "Warn" in spec["validationActions"]:
                    warning = f"Validation failed for ValidatingAdmissionPolicy {denied}: {found.message}"
                    request.warnings.append(warning)
        if denial is not None:
            raise denial

    def _find_denials(self, binding: Mapping[str, Any], request: AdmissionRequest) -> Iterator[Denial]:
        found = self._find_policy(binding["policyName"], request)
        if found is None:
            return
        spec, policy = found
        kind = find_matching_kind(spec.get("matchConstraints") or {}, request, self._registry)
        if kind is None:
            return
        if binding.get("matchResources") and not find_matching_kind(binding["matchResources"], request, self._registry):
            return
        fails_open = spec.get("failurePolicy") == "Ignore"
        try:
            params = find_params(spec, binding.get("paramRef"), request, self._registry)
        except (ParamsError, ParamKindError) as error:
            if not fails_open:
                part = "binding" if isinstance(error, ParamsError) else "policy"
                message = f"failed to configure {part}: {error}"
                yield Denial(message, is_unconditional=True, is_of_policy=part == "policy")
            return
        values = self._values(request, kind)
        for each in params:
            yield from evaluate_policy(policy, {**values, "params": each}, fails_open=fails_open)

    def _find_policy(self, name: str, request: AdmissionRequest) -> tuple[Object, CompiledPolicy] | None:
        record = request.transaction.get(ObjectKey(_POLICIES_RESOURCE_KEY, "", name))
        if record is None:
            self._compiled.pop(name, None)
            return None
        known = self._compiled.get(name)
        if known is None or known[0] != record.version:
            spec = record.decode()["spec"]
            known = self._compiled[name] = (record.version, spec, compile_policy(spec))
        return known[1], known[2]

    def _values(self, request: AdmissionRequest, kind: Kind) -> dict[str, Any]:
        """Return the variables of expressions, with the objects in the version that the policy matches."""
        authorizer = AuthorizerValue(lambda account, verb, check: self._decide(request, account, verb, check))
        checked = request.kind
        return {
            "object": _as_kind(request.obj, request.kind, kind),
            "oldObject": _as_kind(request.old, request.kind, kind),
            "request": convert_request(_admission_request(request, kind)),
            "namespaceObject": convert_namespace(find_namespace(request)),
            "authorizer": authorizer,
            "authorizer.requestResource": ResourceCheckValue(
                authorizer, checked.group, checked.plural, request.subresource, request.namespace, request.info.name
            ),
        }

    def _decide(
        self, request: AdmissionRequest, account: str, verb: str, check: PathCheckValue | ResourceCheckValue
    ) -> DecisionValue:
        user = request.user
        if account:
            namespace = account.split(":")[2]
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            user = {"username": account, "groups": groups}
        if isinstance(check, PathCheckValue):
            attributes = RequestAttributes(user, verb, path=check.path)
        else:
            attributes = RequestAttributes(
                user, verb, check.group, check.resource, check.subresource, check.namespace, check.name
            )
        decision = self._authorizer.decide(attributes)
        return DecisionValue(decision.is_allowed, decision.reason)


def _as_kind(obj: Object | None, served: Kind, wanted: Kind) -> Object | None:
    if obj is None or served is wanted:
        return obj
    return wanted.to_served(served.to_stored(deep_copy(obj)))


def _admission_request(request: AdmissionRequest, kind: Kind) -> dict[str, Any]:
    def kind_fields(of: Kind) -> dict[str, str]:
        return {"group": of.group, "version": of.version, "kind": of.kind}

    def resource_fields(of: Kind) -> dict[str, str]:
        return {"group": of.group, "version": of.version, "resource": of.plural}

    user = request.user
    options = {"kind": _OPTIONS.get(request.operation.value, ""), "apiVersion": "meta.k8s.io/v1"}
    fields = {
        "kind": kind_fields(kind),
        "resource": resource_fields(kind),
        "subResource": request.subresource,
        "requestKind": kind_fields(request.kind),
        "requestResource": resource_fields(request.kind),
        "requestSubResource": request.subresource,
        "name": request.requested_name,
        "namespace": request.namespace,
        "operation": request.operation.value,
        "userInfo": {
            "username": user["username"],
            "groups": list(user.get("groups") or ()),
            **({"uid": user["uid"]} if user.get("uid") else {}),
            **({"extra": user["extra"]} if user.get("extra") else {}),
        },
        "dryRun": request.is_dry_run,
        "options": options,
    }
    return {name: value for name, value in fields.items() if value != ""}


def _denial_error(request: AdmissionRequest, message: str, reason: str) -> ApiError:
    is_of_collection = request.obj is None and not request.info.name  # whose objects have no name in the errors
    error = forbidden(request.kind, "Unknown" if is_of_collection else request.name, message)
    details = {**error.details, "causes": [{"message": message}]}
    code = _CODES.get(reason, 422)
    error_class = {403: Forbidden, 422: Invalid}.get(code, ApiError)
    return error_class(code, reason, error.message, details=details)
