"""Logs in with the help of a program: cloud providers' and others' credential plugins, v1 and v1beta1."""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from pliant.errors import Unauthorized
from pliant.kube.auth.credentials import ClientCertificate, Credential, bearer_header

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_INFO_VARIABLE = "KUBERNETES_EXEC_INFO"
RENEW_BEFORE_EXPIRY = timedelta(seconds=60)
"""How long before its end a credential is renewed."""
MIN_RUN_INTERVAL = timedelta(seconds=10)
"""The shortest time between two runs that nobody but us wants."""
RUN_TIMEOUT_SECONDS = 60.0
"""Seconds for a program that has nobody to wait for."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that hands out credentials."""

    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str]
    """All of it: what the program finds is what we found, and what the kubeconfig adds."""
    interactive_mode: str = "IfAvailable"
    """Never, IfAvailable or Always."""
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = None
    """What it is told of the cluster, if it wants to know."""


class _ExecCredentialStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecCredentialStatus | None = None


class ExecCredentials:
    """Runs a plugin when there is no credential, when it is about to expire, and when the server refused it."""

    def __init__(self, plugin: ExecPlugin, base: Credential, now: Callable[[], datetime]) -> None:
        self._plugin = plugin
        self._base = base
        self._now = now
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._ran_at: datetime | None = None
        self._renew_at: datetime | None = None
        self.expires_at: datetime | None = None
        """When the credential in hand ends, if it said so."""

    @property
    def command(self) -> str:
        """The program."""
        return self._plugin.command

    async def credential(self) -> Credential:
        """A credential that is good for a while."""
        if self._credential is not None and not self._is_renewal_due():
            return self._credential
        async with self._lock:
            if self._credential is None:
                return await self._run_plugin()
            if not self._is_renewal_due():
                return self._credential
            try:
                return await self._run_plugin()
            except Unauthorized as problem:
                if self.expires_at is None or self.expires_at <= self._now():
                    raise
                log.warning("credential not renewed", extra={"because": str(problem), "expires": self.expires_at})
                self._renew_at = self._now() + MIN_RUN_INTERVAL
                return self._credential

    async def renew(self, rejected: Credential) -> bool:
        """Run the plugin again, unless somebody just did."""
        async with self._lock:
            if self._credential != rejected:
                return self._credential is not None
            if self._ran_at is not None and self._now() - self._ran_at < MIN_RUN_INTERVAL:
                return False
            return await self._run_plugin() != rejected

    def _is_renewal_due(self) -> bool:
        return self._renew_at is not None and self._renew_at <= self._now()

    async def _run_plugin(self) -> Credential:
        began = self._now()
        status = self._parse_output(await self._run_command())
        self._ran_at, self.expires_at, self._renew_at = began, status.expiration_timestamp, None
        if status.expiration_timestamp is not None:
            left = status.expiration_timestamp - began
            # One that is over when it comes is shown all the same: clocks differ, and the server decides.
            self._renew_at = max(
                status.expiration_timestamp - min(RENEW_BEFORE_EXPIRY, left / 5), began + MIN_RUN_INTERVAL
            )
        found = self._base
        if status.token:
            found = replace(found, authorization=bearer_header(status.token))
        if status.client_certificate_data:
            pair = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
            found = replace(found, certificate=pair)
        self._credential = found
        return found

    def _parse_output(self, output: bytes) -> _ExecCredentialStatus:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as problem:
            raise self._login_error(f"answered what is no ExecCredential ({problem})") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            said = f"{answer.kind or 'nothing'} of {answer.api_version or 'no version'}"
            raise self._login_error(f"answered with {said}, asked for an ExecCredential of {self._plugin.api_version}")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._login_error("gave neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._login_error("gave a certificate without its key, or a key alone")
        if status.expiration_timestamp is not None and status.expiration_timestamp.tzinfo is None:
            raise self._login_error("gave an expirationTimestamp without a time zone")
        return status

    async def _run_command(self) -> bytes:
        plugin = self._plugin
        asks = self._may_prompt_user()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                stdin=None if asks else DEVNULL,
                stdout=PIPE,
                stderr=None if asks else PIPE,
                env={**plugin.environment, EXEC_INFO_VARIABLE: self._exec_info(asks)},
            )
        except OSError as problem:
            raise self._login_error(f"cannot be started: {problem.strerror}", with_install_hint=True) from None
        try:
            async with asyncio.timeout(None if asks else RUN_TIMEOUT_SECONDS):
                output, words = await process.communicate()
        except TimeoutError:
            raise self._login_error(f"said nothing for {RUN_TIMEOUT_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last = (words or b"").decode(errors="replace").strip().splitlines()[-1:]
            raise self._login_error(f"failed with {process.returncode}{''.join(f': {line}' for line in last)}")
        return output

    def _may_prompt_user(self) -> bool:
        """Whether the program may talk to a person."""
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not has_terminal:
            raise self._login_error("wants to ask you something, and there is no terminal")
        return self._plugin.interactive_mode != "Never" and has_terminal

    def _exec_info(self, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.cluster_info is not None:
            spec["cluster"] = self._plugin.cluster_info
        asked = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(asked).decode()

    def _login_error(self, message: str, *, with_install_hint: bool = False) -> Unauthorized:
        hints = " ".join(self._plugin.install_hint.split()) if with_install_hint else ""
        return Unauthorized(
            401, "Login", f"the login program `{self._plugin.command}` {message}{f'. {hints}' if hints else ''}"
        )
