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
import base64

import msgspec

_API_SERVICE_DNS_NAME = "kubernetes.default.svc.cluster.local"
SERVING_CERT_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    _API_SERVICE_DNS_NAME,
    "127.0.0.1",
    "::1",
)
CERT_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """Who the server is: its authority's certificate for clients, its own chain and key on disk."""

    ca_certificate: bytes
    cert_path: Path
    key_path: Path

    def create_ssl_context(self) -> ssl.SSLContext:
        """What a listening socket needs to speak TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert_path, self.key_path)
        return context


def ensure_serving_certificate(folder: Path, now: datetime, *, extra_names: Sequence[str] = ()) -> ServingCertificate:
    """The identity kept in `folder`, made anew when it is absent or does not cover all `addresses`."""
    wanted = sorted({*SERVING_CERT_NAMES, *extra_names})
    identity = ServingCertificate(ca_certificate=b"", cert_path=folder / "server.crt", key_path=folder / "server.key")
    authority, names = folder / "ca.crt", folder / "names"
    present = all(path.exists() for path in (authority, names, identity.cert_path, identity.key_path))
    if not present or names.read_text().split() != wanted:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names.unlink(missing_ok=True)  # written last: without it a half-made folder is made again
        made = _issue_certificate(wanted, now)
        authority.write_bytes(made.ca_certificate)
        identity.cert_path.write_bytes(made.certificate)
        write_private_file(identity.key_path, made.key)
        names.write_text("\n".join(wanted))
    return ServingCertificate(
        ca_certificate=authority.read_bytes(), cert_path=identity.cert_path, key_path=identity.key_path
    )


def write_private_file(path: Path, content: bytes) -> None:
    """Write a file only its owner may ever have read, whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(content)
    draft.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _IssuedCertificate:
    ca_certificate: bytes
    certificate: bytes
    key: bytes


def _issue_certificate(names: Iterable[str], now: datetime) -> _IssuedCertificate:
    # Imported here: it costs more than the rest of a start, and most starts find their certificates made.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority = _create_ca_certificate(authority_key, now)
    skeleton = _certificate_builder("kubernetes", server_key, now).issuer_name(authority.subject)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    certificate = (
        skeleton.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    signed = _sign_certificate(certificate, authority_key)
    return _IssuedCertificate(
        ca_certificate=authority.public_bytes(serialization.Encoding.PEM),
        certificate=signed.public_bytes(serialization.Encoding.PEM),
        key=server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def _create_ca_certificate(key: EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    from cryptography import x509

    builder = _certificate_builder("pliant embedded cluster", key, now)
    builder = (
        builder.issuer_name(_common_name("pliant embedded cluster"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _sign_certificate(builder, key)


def _certificate_builder(subject: str, key: EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A little in the past, for clocks that run behind ours.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + CERT_LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _sign_certificate(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
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


KUBECONFIG_CONTEXT = "pliant"


def write_kubeconfig(path: Path, *, url: str, ca_certificate: bytes, token: str, namespace: str = "default") -> None:
    """Write a kubeconfig with everything embedded; JSON is YAML, and needs no library to be right."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca_certificate).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": KUBECONFIG_CONTEXT,
        "clusters": [{"name": KUBECONFIG_CONTEXT, "cluster": cluster}],
        "users": [{"name": KUBECONFIG_CONTEXT, "user": {"token": token}}],
        "contexts": [
            {
                "name": KUBECONFIG_CONTEXT,
                "context": {"cluster": KUBECONFIG_CONTEXT, "user": KUBECONFIG_CONTEXT, "namespace": namespace},
            }
        ],
        "preferences": {},
    }
    write_private_file(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
