"""Tokens of service accounts: signed here, for a while, and understood by nobody else."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.apiserver.http.errors import bad_request, invalid_object, not_found
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import Clock

TOKEN_LIFETIME = timedelta(seconds=3607)
API_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_JWT_HEADER = {"alg": "HS256", "typ": "JWT"}

UserInfo = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountRef:
    """A service account, and the pod that acts for it if one does."""

    namespace: str
    name: str
    pod_name: str = ""
    pod_uid: str = ""

    @property
    def username(self) -> str:
        """What it is called as a user of the API."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


class TokenIssuer:
    """Signs tokens and knows its own again; the key lives as long as the cluster runs, as pods do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signing_key = secrets.token_bytes(32)

    def issue(
        self, account: ServiceAccountRef, lifetime: timedelta = TOKEN_LIFETIME, audience: str = API_AUDIENCE
    ) -> str:
        """A token that speaks for an account, to those it is meant for, until its time is over."""
        now = self._clock.now()
        about: dict[str, Any] = {"namespace": account.namespace, "serviceaccount": {"name": account.name}}
        if account.pod_name:
            about["pod"] = {"name": account.pod_name, "uid": account.pod_uid}
        claims = {
            "aud": [audience],
            "exp": _unix_seconds(now + lifetime),
            "iat": _unix_seconds(now),
            "iss": API_AUDIENCE,
            "jti": secrets.token_hex(8),
            "kubernetes.io": about,
            "nbf": _unix_seconds(now),
            "sub": account.username,
        }
        signed = f"{_encode_segment(_JWT_HEADER)}.{_encode_segment(claims)}"
        return f"{signed}.{self._sign(signed)}"

    def authenticate(self, token: str) -> UserInfo | None:
        """Whom a token speaks for; None when it is none of ours, for somebody else, or its time is over."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            return None
        claims = _decode_segment(signed.partition(".")[2])
        if claims is None or API_AUDIENCE not in claims["aud"] or claims["exp"] <= _unix_seconds(self._clock.now()):
            return None
        namespace, pod = claims["kubernetes.io"]["namespace"], claims["kubernetes.io"].get("pod")
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        user: dict[str, Any] = {"username": claims["sub"], "groups": groups}
        if pod:
            prefix = "authentication.kubernetes.io/pod"
            user["extra"] = {f"{prefix}-name": [pod["name"]], f"{prefix}-uid": [pod["uid"]]}
        return user

    def _sign(self, signing_input: str) -> str:
        return _base64url(hmac.digest(self._signing_key, signing_input.encode(), hashlib.sha256))


def _unix_seconds(time: datetime) -> int:
    return int(time.timestamp())


def _encode_segment(content: Mapping[str, Any]) -> str:
    return _base64url(msgspec.json.encode(content))


def _decode_segment(segment: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(segment + "=="), type=dict[str, Any])
    except (msgspec.DecodeError, binascii.Error):
        return None


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_TOKEN_REQUEST_API_VERSION = "authentication.k8s.io/v1"  # noqa: S105 - an API version
_DEFAULT_TOKEN_SECONDS, _MIN_TOKEN_SECONDS = 3600, 600


def create_requested_token(index: ObjectIndex, info: RequestInfo, tokens: TokenIssuer, clock: Clock) -> Reply:
    """A token for the service account that a call names."""
    body = decode_object_body(info.request)
    if (body.get("apiVersion"), body.get("kind")) != (_TOKEN_REQUEST_API_VERSION, "TokenRequest"):
        raise bad_request(f"the body must be a TokenRequest of {_TOKEN_REQUEST_API_VERSION}")
    if index.get(info.key) is None:
        raise not_found(info.kind, info.name)
    spec = body.get("spec") or {}
    seconds = _requested_lifetime_seconds(info.kind, info.name, spec)
    bound = spec.get("boundObjectRef") or {}
    pod = bound.get("name", "") if bound.get("kind") == "Pod" else ""
    account = ServiceAccountRef(namespace=info.namespace, name=info.name, pod_name=pod, pod_uid=bound.get("uid", ""))
    lifetime = timedelta(seconds=seconds)
    audiences = spec.get("audiences") or [API_AUDIENCE]
    answer = {
        "kind": "TokenRequest",
        "apiVersion": _TOKEN_REQUEST_API_VERSION,
        "metadata": {
            "name": info.name,
            "namespace": info.namespace,
            "creationTimestamp": format_timestamp(clock.now()),
        },
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {
            "token": tokens.issue(account, lifetime, audiences[0]),
            "expirationTimestamp": format_timestamp(clock.now() + lifetime),
        },
    }
    return json_response(answer, 201)


def _requested_lifetime_seconds(kind: Kind, name: str, spec: dict[str, Any]) -> int:
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _DEFAULT_TOKEN_SECONDS
    if not isinstance(seconds, int) or seconds < _MIN_TOKEN_SECONDS:
        why = f"Invalid value: {seconds}: may not specify a duration less than {_MIN_TOKEN_SECONDS // 60} minutes"
        raise invalid_object(kind, name, [FieldError("spec.expirationSeconds", FieldErrorType.INVALID.cause, why)])
    return seconds
