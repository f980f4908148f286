"""A certificate authority for one control plane: who anybody is, is what it signs."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write both; where they are."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """Signs certificates; all it made ends with it."""

    def __init__(self, now: datetime) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = now
        self._name = _name("pliant test authority")
        public = self._key.public_key()
        unsigned = self._blank(self._name, public, LIFETIME).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = unsigned.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def server(self) -> Pair:
        """Who listens on the loopback interface."""
        addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "10.96.0.1")]
        names = x509.SubjectAlternativeName([*map(x509.DNSName, SERVER_NAMES), *addresses])
        return self._signed(_name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, LIFETIME, names)

    def user(self, name: str, groups: Sequence[str] = (), lifetime: timedelta = LIFETIME) -> Pair:
        """Somebody whom the API server knows by this name; a negative lifetime is over already."""
        return self._signed(_name(name, *groups), ExtendedKeyUsageOID.CLIENT_AUTH, lifetime, None)

    def _signed(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        lifetime: timedelta,
        names: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = (
            self._blank(subject, key.public_key(), lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if names is not None:
            unsigned = unsigned.add_extension(names, critical=False)
        signed = unsigned.sign(self._key, hashes.SHA256())
        return Pair(signed.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def _blank(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1) + min(lifetime, timedelta(0)))
            .not_valid_after(self._now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as the programs read it."""
    # The one form in which kube-apiserver takes a private key for the public one.
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def write_signing_key(path: Path) -> Path:
    """A key for the tokens of service accounts."""
    path.touch(mode=0o600)
    path.write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1())))
    return path


def write_kubeconfig(path: Path, url: str, authority: bytes, user: Pair | str) -> Path:
    """A kubeconfig with everything in it, for somebody with a certificate or a token."""
    who = {"token": user} if isinstance(user, str) else _embedded(user)
    cluster = {"server": url, "certificate-authority-data": _encoded(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": who}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def _embedded(user: Pair) -> dict[str, str]:
    return {"client-certificate-data": _encoded(user.certificate), "client-key-data": _encoded(user.key)}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _name(common: str, *groups: str) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common)])
