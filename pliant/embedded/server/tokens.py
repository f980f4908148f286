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

from pliant.runtime.clock import Clock

LIFETIME = timedelta(seconds=3607)
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_HEADER = {"alg": "HS256", "typ": "JWT"}

User = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A service account, and the pod that acts for it if one does."""

    namespace: str
    name: str
    pod: str = ""
    pod_uid: str = ""

    @property
    def user(self) -> str:
        """What it is called as a user of the API."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


class Tokens:
    """Signs tokens and knows its own again; the key lives as long as the cluster runs, as pods do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def issue(self, account: Account, lifetime: timedelta = LIFETIME, audience: str = AUDIENCE) -> str:
        """A token that speaks for an account, to those it is meant for, until its time is over."""
        now = self._clock.now()
        about: dict[str, Any] = {"namespace": account.namespace, "serviceaccount": {"name": account.name}}
        if account.pod:
            about["pod"] = {"name": account.pod, "uid": account.pod_uid}
        claims = {
            "aud": [audience],
            "exp": _seconds(now + lifetime),
            "iat": _seconds(now),
            "iss": AUDIENCE,
            "jti": secrets.token_hex(8),
            "kubernetes.io": about,
            "nbf": _seconds(now),
            "sub": account.user,
        }
        signed = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def user(self, token: str) -> User | None:
        """Whom a token speaks for; None when it is none of ours, for somebody else, or its time is over."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return None
        claims = _decoded(signed.partition(".")[2])
        if claims is None or AUDIENCE not in claims["aud"] or claims["exp"] <= _seconds(self._clock.now()):
            return None
        namespace, pod = claims["kubernetes.io"]["namespace"], claims["kubernetes.io"].get("pod")
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        user: dict[str, Any] = {"username": claims["sub"], "groups": groups}
        if pod:
            prefix = "authentication.kubernetes.io/pod"
            user["extra"] = {f"{prefix}-name": [pod["name"]], f"{prefix}-uid": [pod["uid"]]}
        return user

    def _signature(self, signed: str) -> str:
        return _text(hmac.digest(self._key, signed.encode(), hashlib.sha256))


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _encoded(words: Mapping[str, Any]) -> str:
    return _text(msgspec.json.encode(words))


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=="), type=dict[str, Any])
    except (msgspec.DecodeError, binascii.Error):
        return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
