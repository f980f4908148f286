"""Service account tokens: JWTs that this cluster signs and verifies, and the token subresource."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from pliant.embedded.apiserver.auth.users import SERVICE_ACCOUNT_PREFIX, UserInfo, service_account_user
from pliant.embedded.apiserver.http.errors import invalid_field, invalid_object, require_type
from pliant.embedded.apiserver.http.request_body import decode_object_body, object_field
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import ObjectKey
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import MIN_CLOCK_JUMP_SECONDS, Clock

DEFAULT_TOKEN_LIFETIME = timedelta(seconds=3607)
WAKE_UP_LEEWAY_SECONDS = 60.0
"""How long a token that expired while the machine slept is accepted after it woke up; clients reread it so often."""
API_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_ISSUED_CLAIM = "pliant/issued"  # the other clocks of the server when it issued the token
_JWT_HEADER = {"alg": "HS256", "typ": "JWT"}
_TOKEN_REQUEST_API_VERSION = "authentication.k8s.io/v1"  # noqa: S105 - an API version
_POD_NAME_FIELD, _POD_UID_FIELD = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
_DEFAULT_TOKEN_SECONDS, _MIN_TOKEN_SECONDS = 3600, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountRef:
    """A service account, and the pod to which its token is bound, if any."""

    namespace: str
    name: str
    pod_name: str = ""
    pod_uid: str = ""


class TokenIssuer:
    """Signs and verifies tokens with a key that is valid until the cluster stops.

    The claims `iat`, `nbf` and `exp` are times of day, for clients. This server knows when it issued a token, and
    measures the age on the clock since boot: a token stays valid when somebody sets the time of day.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signing_key = secrets.token_bytes(32)
        self._slept_seconds = clock.uptime() - clock.monotonic()
        self._woke_up_at = -math.inf  # on the monotonic clock

    def issue(
        self, account: ServiceAccountRef, lifetime: timedelta = DEFAULT_TOKEN_LIFETIME, audience: str = API_AUDIENCE
    ) -> str:
        now = self._clock.now()
        binding: dict[str, Any] = {"namespace": account.namespace, "serviceaccount": {"name": account.name}}
        if account.pod_name:
            binding["pod"] = {"name": account.pod_name, "uid": account.pod_uid}
        claims = {
            "aud": [audience],
            "exp": int((now + lifetime).timestamp()),
            "iat": int(now.timestamp()),
            "iss": API_AUDIENCE,
            "jti": secrets.token_hex(8),
            "kubernetes.io": binding,
            "nbf": int(now.timestamp()),
            _ISSUED_CLAIM: {"uptime": self._clock.uptime(), "monotonic": self._clock.monotonic()},
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signing_input = ".".join(_base64url(msgspec.json.encode(part)) for part in (_JWT_HEADER, claims))
        return f"{signing_input}.{self._sign(signing_input)}"

    def authenticate(self, token: str) -> UserInfo | None:
        """Return the user of a token; None if its signature or audience is wrong, or it is expired."""
        if not token.isascii():
            return None
        signing_input, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(signing_input).encode()):
            return None
        claims = _decode_segment(signing_input.partition(".")[2])
        if claims is None or API_AUDIENCE not in claims["aud"] or self._is_expired(claims):
            return None
        namespace, pod = claims["kubernetes.io"]["namespace"], claims["kubernetes.io"].get("pod")
        user = service_account_user(namespace, claims["kubernetes.io"]["serviceaccount"]["name"])
        if pod:
            user["extra"] = {_POD_NAME_FIELD: [pod["name"]], _POD_UID_FIELD: [pod["uid"]]}
        return user

    def _is_expired(self, claims: Mapping[str, Any]) -> bool:
        lifetime, issued = claims["exp"] - claims["iat"], claims[_ISSUED_CLAIM]
        uptime, monotonic = self._clock.uptime(), self._clock.monotonic()
        if uptime - monotonic - self._slept_seconds >= MIN_CLOCK_JUMP_SECONDS:
            self._slept_seconds, self._woke_up_at = uptime - monotonic, monotonic
        if uptime - issued["uptime"] < lifetime:
            return False
        # Its pod has had no time to read the next token yet.
        has_just_woken_up = monotonic - self._woke_up_at <= WAKE_UP_LEEWAY_SECONDS
        return not (has_just_woken_up and monotonic - issued["monotonic"] < lifetime)

    def _sign(self, signing_input: str) -> str:
        return _base64url(hmac.digest(self._signing_key, signing_input.encode(), hashlib.sha256))


def is_bound_pod_present(index: ObjectIndex, user: UserInfo) -> bool:
    """Return whether the pod that the token of a user is bound to exists; True for a token without a pod."""
    extra = user.get("extra")
    if not extra:
        return True
    namespace = user["username"].removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")[0]
    [name], [uid] = extra[_POD_NAME_FIELD], extra[_POD_UID_FIELD]
    pod = index.get(ObjectKey("/pods", namespace, name))
    return pod is not None and uid in ("", pod.uid)


def _decode_segment(segment: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(segment + "=="), type=dict[str, Any])
    except (msgspec.DecodeError, binascii.Error):
        return None


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def handle_token_request(index: ObjectIndex, info: RequestInfo, tokens: TokenIssuer, clock: Clock) -> Reply:
    """Process a TokenRequest for the service account of a request."""
    body = decode_object_body(info.request)
    require_type(body, _TOKEN_REQUEST_API_VERSION, "TokenRequest")
    info.require_stored_object(index)
    spec = object_field(body, "spec")
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        seconds = _DEFAULT_TOKEN_SECONDS
    if not isinstance(seconds, int) or seconds < _MIN_TOKEN_SECONDS:
        detail = f"may not specify a duration less than {_MIN_TOKEN_SECONDS // 60} minutes"
        raise invalid_object(info.kind, info.name, [invalid_field("spec.expirationSeconds", seconds, detail)])
    bound = object_field(spec, "boundObjectRef")
    pod = bound.get("name", "") if bound.get("kind") == "Pod" else ""
    account = ServiceAccountRef(namespace=info.namespace, name=info.name, pod_name=pod, pod_uid=bound.get("uid", ""))
    now, lifetime, audiences = clock.now(), timedelta(seconds=seconds), spec.get("audiences") or [API_AUDIENCE]
    response = {
        "kind": "TokenRequest",
        "apiVersion": _TOKEN_REQUEST_API_VERSION,
        "metadata": {"name": info.name, "namespace": info.namespace, "creationTimestamp": format_timestamp(now)},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {
            "token": tokens.issue(account, lifetime, audiences[0]),
            "expirationTimestamp": format_timestamp(now + lifetime),
        },
    }
    return json_response(response, 201)
