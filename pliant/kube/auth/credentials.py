"""How a server lets us in: credentials asked for at each request, so that renewed ones are used at once."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pliant.errors import UserError


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate with its key, as PEM."""

    chain: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a request shows: a header, a certificate, both or neither."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


ANONYMOUS = Credential()


class CredentialProvider(Protocol):
    """Gives the credential of the moment."""

    async def credential(self) -> Credential:
        """What to show now; raises `Unauthorized` when there is nothing to show."""

    async def renew(self, rejected: Credential) -> bool:
        """Look for another credential, after a server refused one; whether there is one worth trying."""


class StaticCredentials:
    """A login that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def credential(self) -> Credential:
        """What to show now."""
        return self._credential

    async def renew(self, rejected: Credential) -> bool:
        """There is no other."""
        return False


def bearer_header(token: str) -> str:
    """The header of a token."""
    return f"Bearer {token}"


def basic_header(user: str, password: str) -> str:
    """The header of a user name and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class ReloadingFile:
    """A file that somebody else renews in place: read again whenever it changes, its last content kept."""

    def __init__(self, path: Path, description: str) -> None:
        self._path = path
        self._description = description
        self._loaded_version: tuple[int, int, int] | None = None
        self._content = b""

    def read(self) -> bytes:
        """The content as it stands now; a file that went away counts as unchanged."""
        try:
            found = self._path.stat()
            version = (found.st_mtime_ns, found.st_ino, found.st_size)
            if version != self._loaded_version:
                self._content = self._path.read_bytes()
                self._loaded_version = version
        except OSError as problem:
            if not self._content:
                raise UserError(f"{self._description} {self._path}: {problem.strerror}") from problem
        return self._content


class FileCredentials:
    """A login kept in files: a token, a certificate with its key, or both; the rest is as `base` says."""

    def __init__(
        self, base: Credential, *, token: ReloadingFile | None, certificate: tuple[ReloadingFile, ReloadingFile] | None
    ) -> None:
        self._base = base
        self._token = token
        self._certificate = certificate

    async def credential(self) -> Credential:
        """What the files hold now."""
        found = self._base
        if self._token is not None:
            found = replace(found, authorization=bearer_header(self._token.read().decode(errors="replace").strip()))
        if self._certificate is not None:
            chain, key = self._certificate
            found = replace(found, certificate=ClientCertificate(chain.read(), key.read()))
        return found

    async def renew(self, rejected: Credential) -> bool:
        """Whether the files have changed since."""
        return await self.credential() != rejected
