"""TLS contexts that verify the API server and present a client certificate."""

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
    """The certificate authority of a server; without one, the authorities of this machine are used."""

    ca_data: bytes = b""
    verify: bool = True
    source: str = "the kubeconfig"  # the origin of the certificates, for error messages

    def build_ssl_context(self, client_certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=self.ca_data.decode("ascii") or None)
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if client_certificate is not None:
                pair = (client_certificate.chain, client_certificate.key)
                with ExitStack() as files:
                    context.load_cert_chain(*(files.enter_context(_temporary_file(part)) for part in pair))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise UserError(f"{self.source}: invalid certificate: {error}") from error
        return context


@contextmanager
def _temporary_file(content: bytes) -> Iterator[str]:
    """Write a temporary file, because the TLS library loads keys from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
