"""Reviews of access: who the user is, and what the user or another subject may do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pliant.embedded.apiserver.auth.users import UserInfo, node_name_of
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes
from pliant.embedded.apiserver.authorization.authorizer import Authorizer, format_errors
from pliant.embedded.apiserver.http.errors import bad_request, invalid_field, require_type
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.schema import FieldError, invalid_error
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import Reply

REVIEW_API_GROUPS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})


def answer_review(info: RequestInfo, authorizer: Authorizer, user: UserInfo, now: datetime) -> Reply:
    """Answer the review in the body of a request; reviews are not stored."""
    review, kind = decode_object_body(info.request), info.kind
    review.setdefault("apiVersion", kind.api_version)
    review.setdefault("kind", kind.kind)
    require_type(review, kind.api_version, kind.kind)
    _validate_types(info, review)
    spec, metadata = review.get("spec") or {}, {"namespace": info.namespace} if info.namespace else {}
    match kind.kind:
        case "SelfSubjectReview":
            metadata["creationTimestamp"] = format_timestamp(now)
            return _review_response(info, metadata, {"status": {"userInfo": user}})
        case "SelfSubjectRulesReview":
            return _review_response(info, metadata, {"spec": {}, "status": _list_rules(spec, authorizer, user)})
        case "SelfSubjectAccessReview":
            subject = user
        case _:
            subject = {"username": spec.get("user") or "", "groups": spec.get("groups") or []}
    if errors := _validate_access_review(info, review):
        raise invalid_error("", kind.group, "", errors)
    decision = authorizer.decide(_reviewed_attributes(spec, subject))
    status = {"allowed": decision.is_allowed, **({"reason": decision.reason} if decision.reason else {})}
    return _review_response(info, metadata, {"spec": spec, "status": status})


def _validate_types(info: RequestInfo, review: dict[str, Any]) -> None:
    schema = info.kind.schema
    if schema is not None:
        schema.prune(review)
        if errors := schema.validate(review):
            raise invalid_error(info.kind.kind, info.kind.group, "", errors)


def _validate_access_review(info: RequestInfo, review: dict[str, Any]) -> list[FieldError]:
    spec, errors = review.get("spec") or {}, []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid_field("spec.resourceAttributes", None, detail))
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid_field("spec.nonResourceAttributes", path, detail))
    names_subject = info.kind.kind in ("SubjectAccessReview", "LocalSubjectAccessReview")
    if names_subject and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid_field("spec.user", "", "at least one of user or group must be specified"))
    if info.kind.kind == "LocalSubjectAccessReview":
        if path is not None:
            errors.append(invalid_field("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
        elif (namespace := (resource or {}).get("namespace") or "") != info.namespace:
            field = "spec.resourceAttributes.namespace"
            errors.append(invalid_field(field, namespace, "must match metadata.namespace"))
    return errors


def _reviewed_attributes(spec: dict[str, Any], subject: UserInfo) -> RequestAttributes:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None:
        return RequestAttributes(subject, (path or {}).get("verb", ""), path=(path or {}).get("path", ""))
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    selector = (resource.get("fieldSelector") or {}).get("rawSelector", "")
    values = {field: resource.get(field) or "" for field in fields}
    return RequestAttributes(subject, **values, field_selector=selector)


def _list_rules(spec: dict[str, Any], authorizer: Authorizer, user: UserInfo) -> dict[str, Any]:
    namespace = spec.get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    found = authorizer.rules_for(user, namespace)
    errors, is_node = list(found.errors), node_name_of(user) is not None
    if is_node:
        errors.insert(0, "node authorizer does not support user rule resolution")
    status: dict[str, Any] = {
        "resourceRules": [rule.to_raw() for rule in found.rules if not rule.non_resource_urls],
        "nonResourceRules": [rule.to_raw() for rule in found.rules if rule.non_resource_urls],
        "incomplete": is_node,
    }
    return {**status, "evaluationError": format_errors(errors)} if errors else status


def _review_response(info: RequestInfo, metadata: dict[str, Any], content: dict[str, Any]) -> Reply:
    head = {"kind": info.kind.kind, "apiVersion": info.kind.api_version, "metadata": metadata}
    return json_response({**head, **content}, 201)
