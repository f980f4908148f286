"""Amounts, variables and command lines mean what they mean in Kubernetes."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.embedded.kubelet.environment.variables import (
    MissingConfig,
    ResolvedPod,
    UnsupportedPodSpec,
    build_command_line,
    build_environment,
    expand_variables,
    referenced_config_objects,
)
from pliant.schemas.quantity import Quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        (2, Fraction(2)),
        (0.5, Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("8G", Fraction(8 * 10**9)),
        ("100k", Fraction(100_000)),
        ("1e3", Fraction(1000)),
        ("2E", Fraction(2 * 10**18)),
        ("3Ei", Fraction(3 * 2**60)),
        ("250u", Fraction(1, 4000)),
    ],
)
def test_amounts_are_exact(text: Quantity, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "--1", "1KiB"])
def test_what_is_no_amount_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)$(B)y", "x12y"),
        ("$(NOT_THERE)", "$(NOT_THERE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$", "$$"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("$(A) 100%", "1 100%"),
    ],
)
def test_references_are_replaced_by_the_rules(text: str, expected: str) -> None:
    assert expand_variables(text, {"A": "1", "B": "2"}) == expected


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_dollar_signs_is_left_alone(text: str) -> None:
    assert expand_variables(text, {"A": "1"}) == text


@given(st.text())
def test_every_text_can_be_written_so_that_it_survives(text: str) -> None:
    assert expand_variables(text.replace("$", "$$"), {"A": "1"}) == text


def test_later_variables_win_and_see_earlier_ones() -> None:
    env = [
        {"name": "A", "value": "$(B)"},
        {"name": "B", "value": "b"},
        {"name": "C", "value": "$(B)$(HOME)"},
        {"name": "HOME", "value": "/other"},
    ]
    result = build_environment({"name": "c", "env": env}, facts(), {"HOME": "/home"})
    assert result == {"A": "$(B)", "B": "b", "C": "b/home", "HOME": "/other"}


def test_arguments_follow_the_command() -> None:
    container = {"name": "c", "command": ["train", "--rank=$(RANK)"], "args": ["$(DATA)"]}
    assert build_command_line(container, {"RANK": "3", "DATA": "/data"}) == ["train", "--rank=3", "/data"]
    assert build_command_line({"name": "c"}, {}) == []


def test_pliants_own_image_has_an_entrypoint() -> None:
    container = {"name": "c", "image": "registry.example/pliant:1", "args": ["operator", "--leader-elect"]}
    assert build_command_line(container, {}) == ["pliant", "operator", "--leader-elect"]
    assert build_command_line({**container, "command": ["sh"]}, {}) == ["sh", "operator", "--leader-elect"]
    assert build_command_line({**container, "image": "other:1"}, {}) == ["operator", "--leader-elect"]


def test_labels_annotations_and_limits_can_be_told() -> None:
    env = [
        _field("JOB", "metadata.labels['example.com/job']"),
        _field("NONE", "metadata.annotations['x']"),
        _field("NODE", "spec.nodeName"),
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
    ]
    container = {"name": "c", "env": env, "resources": {"requests": {"memory": "1536Ki"}}}
    expected = {"JOB": "bert", "NONE": "", "NODE": "node-0", "CPUS": "8", "MIB": "2"}
    assert build_environment(container, facts(), {}) == expected


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedPodSpec, match=r"fieldPath 'status\.phase'"):
        build_environment({"name": "c", "env": [_field("X", "status.phase")]}, facts(), {})


def test_missing_configuration_is_named_unless_it_may_be_absent() -> None:
    reference = {"name": "settings", "key": "depth"}
    needed = {"name": "c", "env": [{"name": "X", "valueFrom": {"configMapKeyRef": reference}}]}
    with pytest.raises(MissingConfig, match='configmap "settings" not found'):
        build_environment(needed, facts(), {})
    with pytest.raises(MissingConfig, match="couldn't find key depth in ConfigMap default/settings"):
        build_environment(needed, facts(settings={}), {})
    reference["optional"] = True  # type: ignore[assignment]
    assert build_environment(needed, facts(), {}) == {}


def test_everything_a_pod_refers_to_is_found() -> None:
    spec: dict[str, Any] = {
        "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "one"}}]}],
        "containers": [{"name": "c", "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "two"}}}]}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "three"}},
            {"name": "b", "projected": {"sources": [{"configMap": {"name": "four"}}]}},
            {"name": "c", "emptyDir": {}},
        ],
    }
    expected = {("Secret", "one"), ("ConfigMap", "two"), ("Secret", "three"), ("ConfigMap", "four")}
    assert referenced_config_objects(spec) == expected


def facts(**config_maps: dict[str, bytes]) -> ResolvedPod:
    metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": {"example.com/job": "bert"}}
    return ResolvedPod(
        pod={"metadata": metadata, "spec": {"nodeName": "node-0", "containers": []}},
        address="10.88.0.2",
        host_address="10.88.0.1",
        node_capacity={"cpu": "8"},
        config_data={("ConfigMap", name): data for name, data in config_maps.items()},
    )


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_pliants_own_image_means_the_python_that_has_pliant() -> None:
    own = str(Path(sys.executable).parent)
    for image in ("pliant", "pliant:0.1.0", "registry.example:5000/team/pliant@sha256:abc"):
        found = build_environment({"name": "main", "image": image}, facts(), {"PATH": "/usr/bin"})
        assert found["PATH"] == f"{own}:/usr/bin"
    assert (
        build_environment({"name": "main", "image": "pliant-not"}, facts(), {"PATH": "/usr/bin"})["PATH"] == "/usr/bin"
    )
