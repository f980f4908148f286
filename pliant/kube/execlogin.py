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
from pliant.kube.login import Certificate, Credential, bearer

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INFO = "KUBERNETES_EXEC_INFO"
EARLY = timedelta(seconds=60)
"""How long before its end a credential is renewed."""
REST = timedelta(seconds=10)
"""The shortest time between two runs that nobody but us wants."""
LONGEST_RUN = 60.0
"""Seconds for a program that has nobody to wait for."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A program that hands out credentials."""

    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str]
    """All of it: what the program finds is what we found, and what the kubeconfig adds."""
    interactive: str = "IfAvailable"
    """Never, IfAvailable or Always."""
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What it is told of the cluster, if it wants to know."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecLogin:
    """Runs a plugin when there is no credential, when it is about to expire, and when the server refused it."""

    def __init__(self, plugin: Plugin, base: Credential, now: Callable[[], datetime]) -> None:
        self._plugin = plugin
        self._base = base
        self._now = now
        self._turn = asyncio.Lock()
        self._held: Credential | None = None
        self._ran_at: datetime | None = None
        self._due: datetime | None = None
        self.expires: datetime | None = None
        """When the credential in hand ends, if it said so."""

    @property
    def command(self) -> str:
        """The program."""
        return self._plugin.command

    async def credential(self) -> Credential:
        """A credential that is good for a while."""
        if self._held is not None and not self._is_due():
            return self._held
        async with self._turn:
            if self._held is None:
                return await self._run()
            if not self._is_due():
                return self._held
            try:
                return await self._run()
            except Unauthorized as problem:
                if self.expires is None or self.expires <= self._now():
                    raise
                log.warning("credential not renewed", extra={"because": str(problem), "expires": self.expires})
                self._due = self._now() + REST
                return self._held

    async def renew(self, refused: Credential) -> bool:
        """Run the plugin again, unless somebody just did."""
        async with self._turn:
            if self._held != refused:
                return self._held is not None
            if self._ran_at is not None and self._now() - self._ran_at < REST:
                return False
            return await self._run() != refused

    def _is_due(self) -> bool:
        return self._due is not None and self._due <= self._now()

    async def _run(self) -> Credential:
        began = self._now()
        status = self._read(await self._output())
        self._ran_at, self.expires, self._due = began, status.expiration_timestamp, None
        if status.expiration_timestamp is not None:
            left = status.expiration_timestamp - began
            # One that is over when it comes is shown all the same: clocks differ, and the server decides.
            self._due = max(status.expiration_timestamp - min(EARLY, left / 5), began + REST)
        found = self._base
        if status.token:
            found = replace(found, authorization=bearer(status.token))
        if status.client_certificate_data:
            pair = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
            found = replace(found, certificate=pair)
        self._held = found
        return found

    def _read(self, output: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except msgspec.DecodeError as problem:
            raise self._failure(f"answered what is no ExecCredential ({problem})") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            said = f"{answer.kind or 'nothing'} of {answer.api_version or 'no version'}"
            raise self._failure(f"answered with {said}, asked for an ExecCredential of {self._plugin.api_version}")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._failure("gave neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failure("gave a certificate without its key, or a key alone")
        if status.expiration_timestamp is not None and status.expiration_timestamp.tzinfo is None:
            raise self._failure("gave an expirationTimestamp without a time zone")
        return status

    async def _output(self) -> bytes:
        plugin = self._plugin
        asks = self._may_ask()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                stdin=None if asks else DEVNULL,
                stdout=PIPE,
                stderr=None if asks else PIPE,
                env={**plugin.environment, INFO: self._info(asks)},
            )
        except OSError as problem:
            raise self._failure(f"cannot be started: {problem.strerror}", hint=True) from None
        try:
            async with asyncio.timeout(None if asks else LONGEST_RUN):
                output, words = await process.communicate()
        except TimeoutError:
            raise self._failure(f"said nothing for {LONGEST_RUN:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last = (words or b"").decode(errors="replace").strip().splitlines()[-1:]
            raise self._failure(f"failed with {process.returncode}{''.join(f': {line}' for line in last)}")
        return output

    def _may_ask(self) -> bool:
        """Whether the program may talk to a person."""
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._plugin.interactive == "Always" and not has_terminal:
            raise self._failure("wants to ask you something, and there is no terminal")
        return self._plugin.interactive != "Never" and has_terminal

    def _info(self, asks: bool) -> str:
        spec: dict[str, Any] = {"interactive": asks}
        if self._plugin.cluster is not None:
            spec["cluster"] = self._plugin.cluster
        asked = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(asked).decode()

    def _failure(self, what: str, *, hint: bool = False) -> Unauthorized:
        hints = " ".join(self._plugin.install_hint.split()) if hint else ""
        return Unauthorized(
            401, "Login", f"the login program `{self._plugin.command}` {what}{f'. {hints}' if hints else ''}"
        )
