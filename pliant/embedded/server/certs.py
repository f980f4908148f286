"""A certificate authority of our own and one server certificate, made once per data folder."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_SERVICE = "kubernetes.default.svc.cluster.local"
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    _SERVICE,
    "127.0.0.1",
    "::1",
)
LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerIdentity:
    """Who the server is: its authority's certificate for clients, its own chain and key on disk."""

    authority: bytes
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a listening socket needs to speak TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context


def server_identity(folder: Path, now: datetime, *, addresses: Sequence[str] = ()) -> ServerIdentity:
    """The identity kept in `folder`, made anew when it is absent or does not cover all `addresses`."""
    wanted = sorted({*NAMES, *addresses})
    identity = ServerIdentity(authority=b"", certificate=folder / "server.crt", key=folder / "server.key")
    authority, names = folder / "ca.crt", folder / "names"
    present = all(path.exists() for path in (authority, names, identity.certificate, identity.key))
    if not present or names.read_text().split() != wanted:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names.unlink(missing_ok=True)  # written last: without it a half-made folder is made again
        made = _make(wanted, now)
        authority.write_bytes(made.authority)
        identity.certificate.write_bytes(made.certificate)
        write_secret(identity.key, made.key)
        names.write_text("\n".join(wanted))
    return ServerIdentity(authority=authority.read_bytes(), certificate=identity.certificate, key=identity.key)


def write_secret(path: Path, content: bytes) -> None:
    """Write a file only its owner may ever have read, whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(content)
    draft.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    authority: bytes
    certificate: bytes
    key: bytes


def _make(names: Iterable[str], now: datetime) -> _Made:
    # Imported here: it costs more than the rest of a start, and most starts find their certificates made.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, now)
    skeleton = _skeleton("kubernetes", server_key, now).issuer_name(authority.subject)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    certificate = (
        skeleton.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    signed = _signed(certificate, authority_key)
    return _Made(
        authority=authority.public_bytes(serialization.Encoding.PEM),
        certificate=signed.public_bytes(serialization.Encoding.PEM),
        key=server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def _authority(key: EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    from cryptography import x509

    builder = _skeleton("pliant embedded cluster", key, now)
    builder = (
        builder.issuer_name(_common_name("pliant embedded cluster"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key)


def _skeleton(subject: str, key: EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A little in the past, for clocks that run behind ours.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _common_name(text: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
