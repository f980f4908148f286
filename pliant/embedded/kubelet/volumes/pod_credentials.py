"""What a pod proves itself with to the API server: tokens that are renewed in time, and whom to trust."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from pliant.embedded.apiserver.auth.tokens import API_AUDIENCE, TOKEN_LIFETIME, ServiceAccountRef, TokenIssuer
from pliant.embedded.kubelet.environment.variables import UnsupportedPodSpec
from pliant.embedded.kubelet.volumes.hardlinks import HardlinkCache

SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs of a pod look for it."""
_RENEW_AT_LIFETIME_FRACTION = 0.8
"""The part of its lifetime after which a token is written anew."""

PodObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenFile:
    """A token, and the file that holds it."""

    account: ServiceAccountRef
    path: Path
    lifetime: timedelta = TOKEN_LIFETIME
    audience: str = API_AUDIENCE


class PodCredentials:
    """Writes tokens for pods, and each of them anew before its time is over."""

    def __init__(self, tokens: TokenIssuer, ca_certificate: bytes) -> None:
        self._tokens = tokens
        self._ca_certificate = ca_certificate
        self._hardlinks = HardlinkCache()
        self._renewal_timers: dict[str, dict[_TokenFile, asyncio.TimerHandle]] = {}
        """When the tokens of each pod, by its uid, are written anew."""

    def write_service_account(self, pod: PodObject, directory: Path) -> None:
        """Write what every pod has, unless it wants nothing of the kind."""
        if pod["spec"].get("automountServiceAccountToken") is False:
            return
        directory.mkdir(parents=True, exist_ok=True)
        self._hardlinks.write_file(directory / "ca.crt", self._ca_certificate)
        self._hardlinks.write_file(directory / "namespace", pod["metadata"]["namespace"].encode())
        self._write_and_renew(_TokenFile(account=service_account_of(pod), path=directory / "token"))

    def write_projected_tokens(self, pod: PodObject, volumes_dir: Path) -> None:
        """Write the tokens that volumes of a pod are to hold; `folder` holds the volumes."""
        for volume, wanted in _projected_tokens(pod):
            kept = _TokenFile(
                account=service_account_of(pod),
                path=volumes_dir / volume / _validate_relative_path(wanted["path"]),
                lifetime=timedelta(seconds=wanted.get("expirationSeconds") or TOKEN_LIFETIME.total_seconds()),
                audience=wanted.get("audience") or API_AUDIENCE,
            )
            kept.path.parent.mkdir(parents=True, exist_ok=True)
            self._write_and_renew(kept)

    def stop_renewing(self, pod_uid: str) -> None:
        """Renew the tokens of a pod no more."""
        for timer in self._renewal_timers.pop(pod_uid, {}).values():
            timer.cancel()

    def close(self) -> None:
        """Renew nothing more."""
        for uid in list(self._renewal_timers):
            self.stop_renewing(uid)

    def _write_and_renew(self, token_file: _TokenFile) -> None:
        if not token_file.path.parent.exists():
            return
        fresh = token_file.path.with_name(".token")
        fresh.write_text(self._tokens.issue(token_file.account, token_file.lifetime, token_file.audience))
        fresh.chmod(0o600)
        fresh.replace(token_file.path)  # a reader finds the old one or the new one, never half of it
        pause = token_file.lifetime.total_seconds() * _RENEW_AT_LIFETIME_FRACTION
        timers = self._renewal_timers.setdefault(token_file.account.pod_uid, {})
        if (before := timers.get(token_file)) is not None:
            before.cancel()
        timers[token_file] = asyncio.get_running_loop().call_later(pause, self._write_and_renew, token_file)


def service_account_of(pod: PodObject) -> ServiceAccountRef:
    """For whom a pod acts."""
    metadata = pod["metadata"]
    return ServiceAccountRef(
        namespace=metadata["namespace"],
        name=pod["spec"].get("serviceAccountName") or "default",
        pod_name=metadata["name"],
        pod_uid=metadata["uid"],
    )


def _projected_tokens(pod: PodObject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Volume and wish for every token that a pod's volumes are to hold."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (wanted := source.get("serviceAccountToken")) is not None:
                yield volume["name"], wanted


def _validate_relative_path(path: str) -> str:
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise UnsupportedPodSpec(f"serviceAccountToken path {path!r} must be relative and must not contain '..'")
    return path
