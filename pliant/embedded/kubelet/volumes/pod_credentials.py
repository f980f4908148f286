"""The service account tokens and CA certificate of a pod; tokens are renewed before they expire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pliant.embedded.apiserver.auth.tokens import API_AUDIENCE, DEFAULT_TOKEN_LIFETIME, ServiceAccountRef, TokenIssuer
from pliant.embedded.kubelet.environment.variables import PodObject, validate_relative_path
from pliant.embedded.kubelet.volumes import beneath
from pliant.embedded.kubelet.volumes.hardlinks import HardlinkCache
from pliant.runtime.clock import Clock, ClockJumpDetector

SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_RENEW_AT_LIFETIME_FRACTION = 0.8

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenFile:
    account: ServiceAccountRef
    directory: Path
    path: str = "token"  # relative to the directory
    lifetime: timedelta = DEFAULT_TOKEN_LIFETIME
    audience: str = API_AUDIENCE


class PodCredentials:
    """Writes and renews the tokens of pods.

    The timers stand still while the machine sleeps, so `renew_after_clock_jump` must be called every few seconds.
    """

    def __init__(self, tokens: TokenIssuer, ca_certificate: bytes, clock: Clock) -> None:
        self._tokens = tokens
        self._jumps = ClockJumpDetector(clock)
        self._ca_certificate = ca_certificate
        self._hardlinks = HardlinkCache()
        self._renewal_timers: dict[str, dict[_TokenFile, asyncio.TimerHandle]] = {}
        """The timers of each pod, by its uid."""

    def write_service_account(self, pod: PodObject, directory: Path) -> None:
        """Write the token, CA certificate and namespace, unless `automountServiceAccountToken` is false."""
        if pod["spec"].get("automountServiceAccountToken") is False:
            return
        beneath.make_directory(directory.parent, directory.name)
        self._hardlinks.write_file(directory / "ca.crt", self._ca_certificate)
        self._hardlinks.write_file(directory / "namespace", pod["metadata"]["namespace"].encode())
        self._write_and_renew(_TokenFile(account=service_account_of(pod), directory=directory))

    def write_projected_tokens(self, pod: PodObject, volumes_dir: Path) -> None:
        """Write the tokens of the projected volumes of a pod."""
        for volume, projection in _projected_tokens(pod):
            token_file = _TokenFile(
                account=service_account_of(pod),
                directory=volumes_dir / volume,
                path=validate_relative_path(projection["path"], "serviceAccountToken path"),
                lifetime=timedelta(
                    seconds=projection.get("expirationSeconds") or DEFAULT_TOKEN_LIFETIME.total_seconds()
                ),
                audience=projection.get("audience") or API_AUDIENCE,
            )
            beneath.make_directory(volumes_dir, volume)
            self._write_and_renew(token_file)

    def renew_after_clock_jump(self) -> None:
        """Renew all tokens if the clock was set or the machine slept: they may have expired, or begin in the future."""
        if not self._jumps.read_jump():
            return
        token_files = [each for timers in self._renewal_timers.values() for each in timers]
        for token_file in token_files:
            self._write_and_renew(token_file)
        log.warning("clock jumped: tokens of pods renewed", extra={"tokens": len(token_files)})

    def stop_renewing(self, pod_uid: str) -> None:
        for timer in self._renewal_timers.pop(pod_uid, {}).values():
            timer.cancel()

    def close(self) -> None:
        """Stop renewing all tokens."""
        for uid in list(self._renewal_timers):
            self.stop_renewing(uid)

    def _write_and_renew(self, token_file: _TokenFile) -> None:
        if not token_file.directory.exists():
            return
        token = self._tokens.issue(token_file.account, token_file.lifetime, token_file.audience)
        # Atomic: a reader finds the old token or the new one.
        beneath.write_file(token_file.directory, token_file.path, token.encode(), 0o600)
        delay = token_file.lifetime.total_seconds() * _RENEW_AT_LIFETIME_FRACTION
        timers = self._renewal_timers.setdefault(token_file.account.pod_uid, {})
        if (old_timer := timers.get(token_file)) is not None:
            old_timer.cancel()
        timers[token_file] = asyncio.get_running_loop().call_later(delay, self._write_and_renew, token_file)


def service_account_of(pod: PodObject) -> ServiceAccountRef:
    """Return the service account of a pod."""
    metadata = pod["metadata"]
    return ServiceAccountRef(
        namespace=metadata["namespace"],
        name=pod["spec"].get("serviceAccountName") or "default",
        pod_name=metadata["name"],
        pod_uid=metadata["uid"],
    )


def _projected_tokens(pod: PodObject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the volume name and the projection of each projected token."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (projection := source.get("serviceAccountToken")) is not None:
                yield volume["name"], projection
