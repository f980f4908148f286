"""YAML is read as Kubernetes reads it, and every complaint names a place."""

from __future__ import annotations

import pytest

from pliant.cli.input.problems import InvalidInput
from pliant.cli.input.yaml_reader import MAX_FILE_BYTES, parse_documents

NINE = ",".join(["1"] * 9)
BOMB = f"- &a0 [{NINE}]\n" + "".join(f"- &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 8))
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 8)
)


def values(text: str) -> list[object]:
    return [document.value for document in parse_documents("file.yaml", text.encode())]


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("1", 1),
        ("-3", -3),
        ("0644", 420),
        ("0o17", 15),
        ("0x1f", 31),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("yes", True),
        ("~", None),
        ("2001-01-01", "2001-01-01"),
        ("1:30", "1:30"),
        ("=", "="),
        ("08", "08"),
        ("'1'", "1"),
    ],
)
def test_scalars_mean_what_they_mean_to_kubernetes(written: str, means: object) -> None:
    assert values(f"a: {written}") == [{"a": means}]


def test_keys_become_text() -> None:
    assert values("1: a\ntrue: b") == [{"1": "a", "true": "b"}]


def test_merges_and_aliases_are_unfolded() -> None:
    text = "base: &base {a: 1, b: 2}\nchild: {<<: *base, b: 3}\nboth: {<<: [{a: 9}, *base]}"
    assert values(text) == [{"base": {"a": 1, "b": 2}, "child": {"a": 1, "b": 3}, "both": {"a": 9, "b": 2}}]


def test_several_documents_come_in_order_and_empty_ones_are_skipped() -> None:
    assert values("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: [", "file.yaml:2:", "not valid YAML"),
        ("a:\n\tb: 1", "file.yaml:2:1", "cannot start any token"),
        ("a: b: c", "file.yaml:1:5", "mapping values are not allowed"),
        ("a: 1\na: 2", "file.yaml:2:1", "duplicate key `a`"),
        ("a: !!binary aGk=", "file.yaml:1:4", "not a JSON value"),
        ("a: !mine x", "file.yaml:1:4", "tag '!mine'"),
        ("? [a]\n: 1", "file.yaml:1:3", "a key must be a scalar"),
        ("x: &a [1, *a]", "file.yaml:1:", "too many values"),
        ("[" * 100_000, "file.yaml:1:61", "nested more than 60 levels deep"),
        (BOMB, "file.yaml:1:", "too many values"),
        (MERGE_BOMB, "file.yaml:1:", "too many values"),
        ("a: \x01", "file.yaml:1:1", "not allowed in YAML"),
        ("<<: 3", "file.yaml:1:5", "`<<` must refer to a mapping"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        values(text)
    [problem] = caught.value.problems
    assert str(problem.location).startswith(place)
    assert words in problem.message


def test_bytes_that_are_no_text_and_endless_files_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8"):
        parse_documents("file.yaml", b"a: 1\nb: \xff")
    with pytest.raises(InvalidInput, match="larger than 4 MiB"):
        parse_documents("file.yaml", b"#" * (MAX_FILE_BYTES + 1))


def test_a_field_is_found_by_its_path_even_if_its_name_has_dots() -> None:
    text = "spec:\n  items:\n    - name: a\n      labels: {a.b/c: x}\n    - name: b\n"
    [document] = parse_documents("f", text.encode())
    assert str(document.location_of("spec.items[1].name")) == "f:5:7"
    assert str(document.location_of("spec.items[0].labels.a.b/c")) == "f:4:16"
    assert str(document.location_of("spec.items[0].labels[a.b/c]")) == "f:4:16"
    assert str(document.location_of("spec.items[0].nothing")) == "f:3:7"
    assert str(document.location_of("spec.items[7].name")) == "f:2:3"
