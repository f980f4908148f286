"""Credentials from an exec plugin (client.authentication.k8s.io, v1 and v1beta1)."""

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

EXEC_CREDENTIAL_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_INFO_VARIABLE = "KUBERNETES_EXEC_INFO"
MAX_RENEWAL_LEAD_TIME = timedelta(seconds=60)
MIN_RUN_INTERVAL = timedelta(seconds=10)  # minimum time between two runs, unless the credential has expired
UNATTENDED_PLUGIN_TIMEOUT_SECONDS = 60.0  # timeout of a plugin that cannot prompt the user

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str]
    """The complete environment: that of this process with the variables of the kubeconfig."""
    interactive_mode: str = "IfAvailable"  # `Never`, `IfAvailable` or `Always`
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = None
    """The `cluster` of KUBERNETES_EXEC_INFO; None unless the kubeconfig sets `provideClusterInfo`."""


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
    """Runs the plugin when there is no credential, when it is about to expire, and when the server rejected it."""

    def __init__(self, plugin: ExecPlugin, base: Credential, now: Callable[[], datetime]) -> None:
        self._plugin = plugin
        self._base = base
        self._now = now
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._ran_at: datetime | None = None
        self._renew_at: datetime | None = None
        self.expires_at: datetime | None = None  # None if the plugin gave no expiration time

    @property
    def plugin_command(self) -> str:
        return self._plugin.command

    async def credential(self) -> Credential:
        if self._credential is not None and not self._is_renewal_due():
            return self._credential
        async with self._lock:
            if self._credential is None:
                return await self._run_plugin()
            if not self._is_renewal_due():
                return self._credential
            try:
                return await self._run_plugin()
            except Unauthorized as error:
                if self.expires_at is None or self.expires_at <= self._now():
                    raise
                log.warning("credential not renewed", extra={"error": str(error), "expires": self.expires_at})
                self._renew_at = self._now() + MIN_RUN_INTERVAL
                return self._credential

    async def renew_after_rejection(self, rejected: Credential) -> bool:
        """Run the plugin again, unless it has just run."""
        async with self._lock:
            if self._credential != rejected:
                return self._credential is not None
            if self._ran_at is not None and timedelta(0) <= self._now() - self._ran_at < MIN_RUN_INTERVAL:
                return False
            return await self._run_plugin() != rejected

    def _is_renewal_due(self) -> bool:
        if self._renew_at is None or self._ran_at is None:
            return False
        now = self._now()
        # If the clock was set back, it no longer tells when the credential expires.
        return self._renew_at <= now or now < self._ran_at

    async def _run_plugin(self) -> Credential:
        started_at = self._now()
        status = self._parse_output(await self._run_command())
        self._ran_at, self.expires_at, self._renew_at = started_at, status.expiration_timestamp, None
        if status.expiration_timestamp is not None:
            # A credential that seems to have expired already is used all the same: clocks differ, the server decides.
            margin = min(MAX_RENEWAL_LEAD_TIME, (status.expiration_timestamp - started_at) / 5)
            self._renew_at = max(status.expiration_timestamp - margin, started_at + MIN_RUN_INTERVAL)
        credential = self._base
        if status.token:
            credential = replace(credential, authorization=bearer_header(status.token))
        if status.client_certificate_data:
            pair = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
            credential = replace(credential, certificate=pair)
        self._credential = credential
        return credential

    def _parse_output(self, output: bytes) -> _ExecCredentialStatus:
        try:
            output_object = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise self._plugin_error(f"did not print an ExecCredential ({error})") from None
        if output_object.kind != "ExecCredential" or output_object.api_version != self._plugin.api_version:
            printed = f"{output_object.kind or 'no kind'} of {output_object.api_version or 'no apiVersion'}"
            raise self._plugin_error(f"printed {printed}; expected ExecCredential of {self._plugin.api_version}")
        status = output_object.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._plugin_error("returned neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._plugin_error("returned a certificate without its key, or a key without its certificate")
        if status.expiration_timestamp is not None and status.expiration_timestamp.tzinfo is None:
            raise self._plugin_error("returned an expirationTimestamp without a time zone")
        return status

    async def _run_command(self) -> bytes:
        plugin = self._plugin
        interactive = self._may_prompt_user()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                stdin=None if interactive else DEVNULL,
                stdout=PIPE,
                stderr=None if interactive else PIPE,
                env={**plugin.environment, EXEC_INFO_VARIABLE: self._exec_info(interactive)},
            )
        except OSError as error:
            raise self._plugin_error(f"cannot be started: {error.strerror}", with_install_hint=True) from None
        try:
            async with asyncio.timeout(None if interactive else UNATTENDED_PLUGIN_TIMEOUT_SECONDS):
                output, error_output = await process.communicate()
        except TimeoutError:
            raise self._plugin_error(f"did not finish within {UNATTENDED_PLUGIN_TIMEOUT_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last_line = (error_output or b"").decode(errors="replace").strip().splitlines()[-1:]
            raise self._plugin_error(f"exited with code {process.returncode}{''.join(f': {x}' for x in last_line)}")
        return output

    def _may_prompt_user(self) -> bool:
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not has_terminal:
            raise self._plugin_error("requires a terminal (interactiveMode is Always), and there is none")
        return self._plugin.interactive_mode != "Never" and has_terminal

    def _exec_info(self, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.cluster_info is not None:
            spec["cluster"] = self._plugin.cluster_info
        exec_info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(exec_info).decode()

    def _plugin_error(self, message: str, *, with_install_hint: bool = False) -> Unauthorized:
        hint = " ".join(self._plugin.install_hint.split()) if with_install_hint else ""
        text = f"exec plugin `{self._plugin.command}` {message}{f'. {hint}' if hint else ''}"
        return Unauthorized(401, "ExecPluginFailed", text)
