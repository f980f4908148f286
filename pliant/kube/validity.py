"""Tells whether what we show a server is out of date, for the server itself only says no."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

import msgspec

from pliant.kube.execlogin import ExecLogin
from pliant.kube.login import Credential, Login


class _Claims(msgspec.Struct):
    exp: float | None = None


def expired_part(login: Login | None, shown: Credential, now: datetime) -> str:
    """Which part of a credential is over, and since when; empty when none is, as far as can be told."""
    if isinstance(login, ExecLogin) and login.expires is not None and login.expires <= now:
        return f"the credential of the login program `{login.command}` expired {_date(login.expires)}"
    if shown.certificate is not None and (end := _certificate_end(shown.certificate.chain)) and end <= now:
        return f"the client certificate expired {_date(end)}"
    token = shown.authorization.removeprefix("Bearer ")
    if (over := _token_end(token)) and over <= now:
        return f"the token expired {_date(over)}"
    return ""


def _certificate_end(chain: bytes) -> datetime | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(chain)[0].not_valid_after_utc
    except ValueError:
        return None


def _token_end(token: str) -> datetime | None:
    """When a token ends that says so itself, as those of service accounts do."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims)
        return datetime.fromtimestamp(claims.exp, UTC) if claims.exp else None
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError, OSError):
        return None


def _date(when: datetime) -> str:
    return when.astimezone(UTC).strftime("on %Y-%m-%d at %H:%M UTC")
