"""Parsing of image names, on which the default pull policy depends."""

from __future__ import annotations

import re
from typing import Final

_DEFAULT_DOMAINS: Final = ("docker.io", "index.docker.io")
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
_REFERENCE: Final = re.compile(
    rf"{_DOMAIN}/(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)
_MAX_PATH_LENGTH: Final = 255


def is_latest_image(image: str) -> bool:
    """Return whether an image is that of the tag `latest`, also by default; no image is that cannot be parsed."""
    if _IDENTIFIER.fullmatch(image):
        return False
    first, slash, rest = image.partition("/")
    has_domain = slash and (first == "localhost" or first != first.lower() or any(each in first for each in ".:"))
    domain, path = (first, rest) if has_domain else ("docker.io", image)
    if domain in _DEFAULT_DOMAINS and "/" not in path:
        path = f"library/{path}"
    match = _REFERENCE.fullmatch(f"{domain}/{path}")
    if match is None or len(match["path"]) > _MAX_PATH_LENGTH:
        return False
    return match["tag"] == "latest" or not (match["tag"] or match["digest"])
