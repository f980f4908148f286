"""Credentials for an API server. Each request asks for the current credential, so a renewed one is used at once."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pliant.errors import UserError


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    chain: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """An `Authorization` header, a client certificate, both or neither."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


ANONYMOUS_CREDENTIAL = Credential()


class CredentialProvider(Protocol):
    async def credential(self) -> Credential:
        """Return the current credential; raise `Unauthorized` if there is none."""

    async def renew_after_rejection(self, rejected: Credential) -> bool:
        """Try to get another credential after the server rejected one; return whether there is one to try."""


class StaticCredentials:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def credential(self) -> Credential:
        return self._credential

    async def renew_after_rejection(self, rejected: Credential) -> bool:
        return False


def bearer_header(token: str) -> str:
    return f"Bearer {token}"


def basic_header(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class ReloadingFile:
    """A file that another process may replace or delete: read again after each change, kept if it is deleted."""

    def __init__(self, path: Path, description: str) -> None:
        self._path = path
        self._description = description
        self._loaded_version: tuple[int, int, int] | None = None
        self._content = b""

    def read(self) -> bytes:
        try:
            stat = self._path.stat()
            version = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if version != self._loaded_version:
                self._content = self._path.read_bytes()
                self._loaded_version = version
        except OSError as error:
            if not self._content:
                raise UserError(f"{self._description} {self._path}: {error.strerror}") from error
        return self._content


class FileCredentials:
    """Reads a token, a certificate with its key, or both from files; `base` supplies the rest."""

    def __init__(
        self, base: Credential, *, token: ReloadingFile | None, certificate: tuple[ReloadingFile, ReloadingFile] | None
    ) -> None:
        self._base = base
        self._token = token
        self._certificate = certificate

    async def credential(self) -> Credential:
        credential = self._base
        if self._token is not None:
            token = self._token.read().decode(errors="replace").strip()
            credential = replace(credential, authorization=bearer_header(token))
        if self._certificate is not None:
            chain, key = self._certificate
            credential = replace(credential, certificate=ClientCertificate(chain.read(), key.read()))
        return credential

    async def renew_after_rejection(self, rejected: Credential) -> bool:
        return await self.credential() != rejected
