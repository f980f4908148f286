from __future__ import annotations

from typing import Any

import pytest

from pliant.embedded.schema import Schema
from pliant.embedded.schema.formats import STRING_FORMAT_CHECKS, compile_go_pattern
from pliant.embedded.schema.metadata import DNS_1035_LABEL_RULE, DNS_LABEL_RULE, validate_metadata


@pytest.mark.parametrize(
    ("form", "sound", "unsound"),
    [
        ("byte", "aGk=", "a"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/99"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-01-02T03:04:05Z", "2026-13-02T03:04:05Z"),
        ("date-time", "2026-01-02t03:04:05.5-08:00", "2026-01-02"),
        ("duration", "1h30m", "soon"),
        ("email", "a@b.org", "a at b"),
        ("hostname", "a.example.org", "-a"),
        ("ipv4", "1.2.3.4", "1.2.3"),
        ("ipv6", "::1", "1.2.3.4"),
        ("mac", "01:02:03:0a:0b:0c", "01:02"),
        ("uri", "https://example.org/x", "not a uri"),
        ("uri", "/relative", "http://[broken"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
    ],
)
def test_formats_tell_sound_text_from_other_text(form: str, sound: str, unsound: str) -> None:
    assert STRING_FORMAT_CHECKS[form](sound)
    assert not STRING_FORMAT_CHECKS[form](unsound)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        (r"^\d+$", "1\n", False),
        (r"^\d+$", "१", False),
        (r"^[[:alpha:]]+\z", "abc", True),
        (r"^a\$", "a$x", True),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, found: bool) -> None:
    assert (compile_go_pattern(pattern).search(text) is not None) is found


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"name": "a" * 254}, "must be no more than 253 bytes"),
        ({"labels": {"a" * 64: ""}}, "name part must be no more than 63 bytes"),
        ({"labels": {"a": "b" * 64}}, "must be no more than 63 bytes"),
        ({"labels": {"Bad_Prefix/a": ""}}, "prefix part a lowercase RFC 1123 subdomain"),
        ({"labels": {"/a": ""}}, "prefix part must be non-empty"),
        ({"annotations": {"a": "x" * 262_144}}, "may not be more than 262144 bytes"),
    ],
)
def test_metadata_has_limits(metadata: dict[str, Any], says: str) -> None:
    (problem,) = validate_metadata(metadata)
    assert says in problem.message


def test_some_kinds_have_narrower_names() -> None:
    assert validate_metadata({"name": "a.b"}) == []
    assert validate_metadata({"name": "a.b"}, DNS_LABEL_RULE) != []
    assert validate_metadata({"name": "1a"}, DNS_LABEL_RULE) == []
    assert validate_metadata({"name": "1a"}, DNS_1035_LABEL_RULE) != []


def test_keywords_without_a_type_speak_only_about_values_they_fit() -> None:
    node = {"x-kubernetes-preserve-unknown-fields": True, "minimum": 2, "maxLength": 1, "minItems": 1}
    schema = Schema.compile({"type": "object", "properties": {"f": node}})
    sound: list[Any] = [True, None, {}, 2, 2.5, "a", [0]]
    unsound: list[Any] = [1, 1.5, "ab", []]
    assert [len(schema.validate({"f": value})) for value in sound] == [0] * 7
    assert [len(schema.validate({"f": value})) for value in unsound] == [1] * 4
