from __future__ import annotations

import pytest

from pliant.embedded.apiserver.selectors import FieldSelector, LabelSelector, selectable_field_value
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.errors import BadRequest


def core(plural: str) -> Kind:
    kind = KindRegistry.with_builtin_kinds().find_resource("", "v1", plural)
    assert kind is not None
    return kind


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a != b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "b"}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,c)", {"a": "d"}, False),
        ("a in (b)", {}, False),
        ("a in ()", {"a": ""}, True),
        ("a notin (b,c)", {"a": "d"}, True),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "4"}, False),
        ("a>3", {"a": "x"}, False),
        ("a>3", {"a": "9" * 63}, False),
        ("a=b,c in (d,e),!f,g", {"a": "b", "c": "e", "g": ""}, True),
        ("a=b,c in (d,e),!f", {"a": "b", "c": "e", "f": ""}, False),
        ("example.org/in=x,notin", {"example.org/in": "x", "notin": ""}, True),
    ],
)
def test_labels_are_selected(text: str, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is matches


@pytest.mark.parametrize(
    "text",
    [
        "a in b",
        "=b",
        "a=b=c",
        "a,",
        ",a",
        "a in (b",
        "a b",
        "a=b c",
        "a>x",
        "-a=b",
        "a=$",
        "a>٣",
        f"a>{2**63}",
        "a<" + "9" * 5000,
    ],
)
def test_an_unreadable_label_selector_is_named(text: str) -> None:
    with pytest.raises(BadRequest, match="unable to parse requirement"):
        LabelSelector.parse(text)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==b", False),
        ("metadata.name!=b,status.phase=Running", True),
        ("status.phase!=Running", False),
        ("spec.nodeName=", True),
    ],
)
def test_fields_are_selected(text: str, matches: bool) -> None:
    selector = FieldSelector.parse(text)
    pod = {"metadata": {"name": "a"}, "status": {"phase": "Running"}}
    assert selector.matches({"metadata.name": "a", "status.phase": "Running"}) is matches
    assert selector.matches_object(pod) is matches


def test_a_selector_tells_the_one_name_it_leaves() -> None:
    assert FieldSelector.parse("metadata.name=a").required_value("metadata.name") == "a"
    assert FieldSelector.parse("metadata.name!=a").required_value("metadata.name") is None


def test_a_field_that_cannot_be_selected_by_is_named() -> None:
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.colour"):
        FieldSelector.parse("spec.colour=red", core("pods"))
    with pytest.raises(BadRequest, match="can't understand 'nonsense'"):
        FieldSelector.parse("nonsense")


def test_fields_that_are_absent_or_elsewhere_have_the_text_kubernetes_gives_them() -> None:
    assert selectable_field_value({"spec": {}}, "spec.unschedulable") == "false"
    assert selectable_field_value({"spec": {"unschedulable": True}}, "spec.unschedulable") == "true"
    assert selectable_field_value({"source": {"component": "kubelet"}}, "source") == "kubelet"
    assert selectable_field_value({"status": "odd"}, "status.phase") == ""


def test_every_selectable_field_of_a_pod_is_extracted() -> None:
    pod = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Pending"}}
    fields = {
        field: selectable_field_value(pod, field) for field in ("metadata.namespace", *core("pods").selectable_fields)
    }
    assert fields["metadata.namespace"] == "n"
    assert fields["spec.nodeName"] == "x"
    assert fields["status.podIP"] == ""
