"""Which servers we believe: contexts for verified TLS, with or without a certificate of our own."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pliant.errors import UserError
from pliant.kube.auth.credentials import ClientCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The authority that vouches for a server; without one, those of this machine do."""

    ca_data: bytes = b""
    verify: bool = True
    source: str = "the kubeconfig"
    """Who to name when a certificate cannot be used."""

    def ssl_context(self, client_certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """A context that believes this authority and shows our own certificate."""
        try:
            context = ssl.create_default_context(cadata=self.ca_data.decode("ascii") or None)
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if client_certificate is not None:
                with ExitStack() as files:
                    context.load_cert_chain(
                        *(
                            files.enter_context(_temporary_file(part))
                            for part in (client_certificate.chain, client_certificate.key)
                        )
                    )
        except (ssl.SSLError, UnicodeDecodeError) as problem:
            raise UserError(f"{self.source}: bad certificate: {problem}") from problem
        return context


@contextmanager
def _temporary_file(content: bytes) -> Iterator[str]:
    """A private file for as long as it takes the TLS library to read it: it takes keys from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
