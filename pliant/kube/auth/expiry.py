"""Finds out whether a rejected credential has expired; the API server only answers 401."""

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
    """Return which part of a credential has expired and when; empty if none has, as far as can be determined."""
    if isinstance(provider, ExecCredentials) and provider.expires_at is not None and provider.expires_at <= now:
        return (
            f"the credential of exec plugin `{provider.plugin_command}` expired {_format_expiry(provider.expires_at)}"
        )
    certificate = credential.certificate
    if certificate is not None and (expiry := _certificate_expiry(certificate.chain)) and expiry <= now:
        return f"the client certificate expired {_format_expiry(expiry)}"
    if (expiry := _token_expiry(credential.authorization.removeprefix("Bearer "))) and expiry <= now:
        return f"the token expired {_format_expiry(expiry)}"
    return ""


def _certificate_expiry(chain: bytes) -> datetime | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(chain)[0].not_valid_after_utc
    except ValueError:
        return None


def _token_expiry(token: str) -> datetime | None:
    """Return the `exp` claim of a JSON web token, such as a service account token."""
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
