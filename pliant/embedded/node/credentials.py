"""What a pod proves itself with to the API server: tokens that are renewed in time, and whom to trust."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from pliant.embedded.node.alike import Alike
from pliant.embedded.node.environment import Unusable
from pliant.embedded.server.tokens import AUDIENCE, LIFETIME, Account, Tokens

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs of a pod look for it."""
_RENEWED_AFTER = 0.8
"""The part of its lifetime after which a token is written anew."""

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A token, and the file that holds it."""

    account: Account
    file: Path
    lifetime: timedelta = LIFETIME
    audience: str = AUDIENCE


class Credentials:
    """Writes tokens for pods, and each of them anew before its time is over."""

    def __init__(self, tokens: Tokens, authority: bytes) -> None:
        self._tokens = tokens
        self._authority = authority
        self._alike = Alike()
        self._timers: dict[str, dict[_Kept, asyncio.TimerHandle]] = {}
        """When the tokens of each pod, by its uid, are written anew."""

    def lay_out(self, pod: Pod, folder: Path) -> None:
        """Write what every pod has, unless it wants nothing of the kind."""
        if pod["spec"].get("automountServiceAccountToken") is False:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._alike.put(folder / "ca.crt", self._authority)
        self._alike.put(folder / "namespace", pod["metadata"]["namespace"].encode())
        self._keep(_Kept(account=account_of(pod), file=folder / "token"))

    def project(self, pod: Pod, folder: Path) -> None:
        """Write the tokens that volumes of a pod are to hold; `folder` holds the volumes."""
        for volume, wanted in _projected(pod):
            kept = _Kept(
                account=account_of(pod),
                file=folder / volume / _inside(wanted["path"]),
                lifetime=timedelta(seconds=wanted.get("expirationSeconds") or LIFETIME.total_seconds()),
                audience=wanted.get("audience") or AUDIENCE,
            )
            kept.file.parent.mkdir(parents=True, exist_ok=True)
            self._keep(kept)

    def forget(self, uid: str) -> None:
        """Renew the tokens of a pod no more."""
        for timer in self._timers.pop(uid, {}).values():
            timer.cancel()

    def close(self) -> None:
        """Renew nothing more."""
        for uid in list(self._timers):
            self.forget(uid)

    def _keep(self, kept: _Kept) -> None:
        if not kept.file.parent.exists():
            return
        fresh = kept.file.with_name(".token")
        fresh.write_text(self._tokens.issue(kept.account, kept.lifetime, kept.audience))
        fresh.chmod(0o600)
        fresh.replace(kept.file)  # a reader finds the old one or the new one, never half of it
        pause = kept.lifetime.total_seconds() * _RENEWED_AFTER
        timers = self._timers.setdefault(kept.account.pod_uid, {})
        if (before := timers.get(kept)) is not None:
            before.cancel()
        timers[kept] = asyncio.get_running_loop().call_later(pause, self._keep, kept)


def account_of(pod: Pod) -> Account:
    """For whom a pod acts."""
    metadata = pod["metadata"]
    return Account(
        namespace=metadata["namespace"],
        name=pod["spec"].get("serviceAccountName") or "default",
        pod=metadata["name"],
        pod_uid=metadata["uid"],
    )


def _projected(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Volume and wish for every token that a pod's volumes are to hold."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (wanted := source.get("serviceAccountToken")) is not None:
                yield volume["name"], wanted


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise Unusable(f"serviceAccountToken path {path!r} must be relative and must not contain '..'")
    return path
