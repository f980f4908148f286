"""Which servers we believe: contexts for verified TLS, with or without a certificate of our own."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pliant.errors import UserError
from pliant.kube.login import Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The authority that vouches for a server; without one, those of this machine do."""

    authority: bytes = b""
    verified: bool = True
    said_by: str = "the kubeconfig"
    """Who to name when a certificate cannot be used."""

    def context(self, own: Certificate | None = None) -> ssl.SSLContext:
        """A context that believes this authority and shows our own certificate."""
        try:
            context = ssl.create_default_context(cadata=self.authority.decode("ascii") or None)
            if not self.verified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if own is not None:
                with ExitStack() as files:
                    context.load_cert_chain(*(files.enter_context(_file(part)) for part in (own.chain, own.key)))
        except (ssl.SSLError, UnicodeDecodeError) as problem:
            raise UserError(f"{self.said_by}: bad certificate: {problem}") from problem
        return context


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A private file for as long as it takes the TLS library to read it: it takes keys from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
