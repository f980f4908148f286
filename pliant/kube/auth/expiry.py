"""Tells whether what we show a server is out of date, for the server itself only says no."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

import msgspec

from pliant.kube.auth.credentials import Credential, CredentialProvider
from pliant.kube.auth.exec_plugin import ExecCredentials


class _TokenClaims(msgspec.Struct):
    exp: float | None = None


def describe_expired_credential(provider: CredentialProvider | None, credential: Credential, now: datetime) -> str:
    """Which part of a credential is over, and since when; empty when none is, as far as can be told."""
    if isinstance(provider, ExecCredentials) and provider.expires_at is not None and provider.expires_at <= now:
        return f"the credential of the login program `{provider.command}` expired {_format_expiry(provider.expires_at)}"
    if credential.certificate is not None and (end := _certificate_expiry(credential.certificate.chain)) and end <= now:
        return f"the client certificate expired {_format_expiry(end)}"
    token = credential.authorization.removeprefix("Bearer ")
    if (over := _token_expiry(token)) and over <= now:
        return f"the token expired {_format_expiry(over)}"
    return ""


def _certificate_expiry(chain: bytes) -> datetime | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(chain)[0].not_valid_after_utc
    except ValueError:
        return None


def _token_expiry(token: str) -> datetime | None:
    """When a token ends that says so itself, as those of service accounts do."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_TokenClaims)
        return datetime.fromtimestamp(claims.exp, UTC) if claims.exp else None
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError, OSError):
        return None


def _format_expiry(expires_at: datetime) -> str:
    return expires_at.astimezone(UTC).strftime("on %Y-%m-%d at %H:%M UTC")
