"""What a pod proves itself with to the API server: a token that is renewed in time, and whom to trust."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.server.tokens import LIFETIME, Account

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs of a pod look for it."""
_RENEWED_AFTER = LIFETIME.total_seconds() * 0.8


class Credentials:
    """Writes a folder for each pod, and the token in it anew before its time is over."""

    def __init__(self, issue: Callable[[Account], str], authority: bytes) -> None:
        self._issue = issue
        self._authority = authority
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def lay_out(self, pod: Mapping[str, Any], folder: Path) -> None:
        """Write what a pod needs, unless it wants nothing of the kind."""
        if pod["spec"].get("automountServiceAccountToken") is False:
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(self._authority)
        (folder / "namespace").write_text(pod["metadata"]["namespace"])
        self._renew(account_of(pod), folder)

    def forget(self, uid: str) -> None:
        """Renew the token of a pod no more."""
        if (timer := self._timers.pop(uid, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        """Renew nothing more."""
        for uid in list(self._timers):
            self.forget(uid)

    def _renew(self, account: Account, folder: Path) -> None:
        if not folder.exists():
            return
        fresh = folder / ".token"
        fresh.write_text(self._issue(account))
        fresh.chmod(0o600)
        fresh.replace(folder / "token")  # a reader finds the old one or the new one, never half of it
        loop = asyncio.get_running_loop()
        self._timers[account.pod_uid] = loop.call_later(_RENEWED_AFTER, self._renew, account, folder)


def account_of(pod: Mapping[str, Any]) -> Account:
    """For whom a pod acts."""
    metadata = pod["metadata"]
    return Account(
        namespace=metadata["namespace"],
        name=pod["spec"].get("serviceAccountName") or "default",
        pod=metadata["name"],
        pod_uid=metadata["uid"],
    )
