"""Bodies that kubectl sends in protobuf."""

from __future__ import annotations

import pytest

from pliant.embedded.apiserver.protobuf.decoder import decode_protobuf
from pliant.errors import BadRequest


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def envelope(kind: bytes, message: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, b"v1") + field(2, kind)) + field(2, message)


def test_options_of_a_deletion_are_read() -> None:
    message = bytes([1 << 3, 30]) + field(2, field(1, b"uid-1")) + field(4, b"Background")
    assert decode_protobuf(envelope(b"DeleteOptions", message)) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 30,
        "preconditions": {"uid": "uid-1"},
        "propagationPolicy": "Background",
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"k8s\x00",
        b"{}",
        envelope(b"Nothing", b""),
        envelope(b"DeleteOptions", field(1, b"x")),
        envelope(b"Namespace", b"\xff"),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_protobuf(body)


def test_a_field_that_is_newer_than_the_server_is_refused_unless_it_is_empty() -> None:
    with pytest.raises(BadRequest, match="field 9 of Namespace is not known"):
        decode_protobuf(envelope(b"Namespace", field(9, b"new")))
    assert decode_protobuf(envelope(b"Namespace", bytes([9 << 3, 0])))["kind"] == "Namespace"


def test_a_priority_class_is_read_also_one_below_zero() -> None:
    minus_one = bytes([0xFF] * 9 + [0x01])
    message = field(1, field(1, b"low")) + bytes([2 << 3]) + minus_one + field(5, b"Never")
    body = b"k8s\x00" + field(1, field(1, b"scheduling.k8s.io/v1") + field(2, b"PriorityClass")) + field(2, message)
    assert decode_protobuf(body) == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "low"},
        "value": -1,
        "preemptionPolicy": "Never",
    }
