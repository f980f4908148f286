"""What is printed to put an operator on a cluster, and to take it away again."""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Iterable
from contextlib import redirect_stdout
from functools import cache
from typing import Any

import pytest

from pliant.cli.cluster.operator_manifests import crd_manifests
from pliant.cli.commands.admin.operator import configure
from pliant.cli.input.kinds_option import choose_kinds
from pliant.cli.input.operator_options import DEFAULT_LEASE_NAME
from pliant.cli.main import CommandParser, main
from pliant.controllers.rbac.permissions import PermissionScope, operator_permissions
from pliant.frontends.frontend import Frontend
from tests.quickyaml import documents

Object = dict[str, Any]
DEFINITIONS = list(crd_manifests())
FEW = ("--kinds", "paddle")
"""For tests in which the kinds do not matter: all definitions take seconds to write and to read."""
Rule = tuple[str, str, str, str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def objects(*words: str) -> list[Object]:
        with pytest.raises(SystemExit) as exit_:
            main(words)
        said = capsys.readouterr()
        assert (exit_.value.code, said.err) == (0, "")
        return documents(said.out)

    return objects


def kinds(objects: list[Object]) -> list[str]:
    return [each["kind"] for each in objects]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def container(objects: list[Object]) -> Object:
    [deployment] = of_kind(objects, "Deployment")
    [only] = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def rules(role: Object) -> set[Rule]:
    """Each thing that a role allows: group, resource, verb and the one object that is meant."""
    return {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def needed(*places: PermissionScope, kinds: Iterable[Frontend] | None = None) -> set[Rule]:
    rights = [right for right in operator_permissions(DEFAULT_LEASE_NAME, kinds) if right.scope in places]
    return {(right.group, right.resource_path, verb, right.resource_name) for right in rights for verb in right.verbs}


def understood(words: list[str]) -> Namespace:
    """The options of the container, as its command reads them; a wrong one ends the test."""
    assert words[0] == "operator"
    parser = CommandParser(allow_abbrev=False)
    configure(parser)
    return parser.parse_args(words[1:])


@cache
def print_every_kind() -> list[Object]:
    """What `pliant install` prints without --kinds: tests of all kinds share it."""
    text = io.StringIO()
    with redirect_stdout(text), pytest.raises(SystemExit):
        main(["install", "--namespace", "ops"])
    return documents(text.getvalue())


def test_each_object_comes_after_those_it_needs() -> None:
    objects = print_every_kind()
    assert kinds(objects) == [
        *["CustomResourceDefinition"] * len(DEFINITIONS),
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRole",
        "Service",
        "Deployment",
        "PodDisruptionBudget",
    ]


def test_the_operator_has_the_rights_it_needs_and_no_other() -> None:
    objects = print_every_kind()
    [everywhere, *_] = of_kind(objects, "ClusterRole")
    [at_home] = of_kind(objects, "Role")
    assert rules(everywhere) == needed(PermissionScope.JOB_NAMESPACES, PermissionScope.CLUSTER)
    assert rules(at_home) == needed(PermissionScope.OPERATOR_NAMESPACE)
    assert at_home["metadata"]["namespace"] == "ops"
    assert not {"*", "secrets"} & {word for rule in rules(everywhere) for word in rule}


def test_rights_are_bound_to_the_account_of_the_pods(printed: Any) -> None:
    objects = printed("install", *FEW, "--namespace", "ops", "--watch-namespace", "team-a")
    [account] = of_kind(objects, "ServiceAccount")
    [deployment] = of_kind(objects, "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
    roles = {(each["kind"], each["metadata"]["name"]) for each in objects if each["kind"].endswith("Role")}
    for binding in bindings:
        name = account["metadata"]["name"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "ops"}]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles


def test_outside_of_the_watched_namespaces_only_what_belongs_to_none_is_seen(printed: Any) -> None:
    objects = printed("install", *FEW, *("--watch-namespace", "team-a"), *("--watch-namespace", "team-b"))
    [everywhere, *_] = of_kind(objects, "ClusterRole")
    assert {resource for _, resource, _, _ in rules(everywhere)} == {"nodes", "priorityclasses"}
    assert rules(everywhere) == needed(PermissionScope.CLUSTER, kinds=choose_kinds(["paddle"]))
    by_place = {role["metadata"]["namespace"]: rules(role) for role in of_kind(objects, "Role")}
    jobs = needed(PermissionScope.JOB_NAMESPACES, kinds=choose_kinds(["paddle"]))
    assert by_place == {"team-a": jobs, "team-b": jobs, "pliant-system": needed(PermissionScope.OPERATOR_NAMESPACE)}


@pytest.mark.parametrize("watched", [[], ["team-a"], ["team-a", "team-b", "team-a"]])
def test_the_container_is_told_what_the_operator_understands(printed: Any, watched: list[str]) -> None:
    options = [word for name in watched for word in ("--watch-namespace", name)]
    only = container(printed("install", *FEW, "--namespace", "ops", *options))
    args = understood(only["args"])
    assert args.leader_elect is True
    assert (args.lease_namespace, args.lease_name) == ("ops", DEFAULT_LEASE_NAME)
    assert args.namespaces == list(dict.fromkeys(watched))
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    assert args.metrics_bind_address == (None, ports["metrics"])
    assert args.health_probe_bind_address == (None, ports["health"])
    assert {only[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {"health"}


def test_whoever_may_edit_a_namespace_may_edit_its_jobs_and_whoever_may_view_it_sees_them() -> None:
    objects = print_every_kind()
    [_, view, edit] = of_kind(objects, "ClusterRole")
    marked = {
        role["metadata"]["name"]: [label for label in role["metadata"]["labels"] if "aggregate-to" in label]
        for role in (view, edit)
    }
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert marked == {"pliant-view.ops": [f"{prefix}view"], "pliant-edit.ops": [f"{prefix}edit", f"{prefix}admin"]}
    ours = {
        (crd["spec"]["group"], crd["spec"]["names"]["plural"]) for crd in of_kind(objects, "CustomResourceDefinition")
    }
    assert {(group, name) for group, name, verb, _ in rules(view) if verb == "watch"} >= ours
    assert {(group, name) for group, name, verb, _ in rules(edit) if verb == "create"} >= ours
    assert {verb for _, _, verb, _ in rules(view)} == {"get", "list", "watch"}
    assert ("kubeflow.org", "pytorchjobs/scale", "patch", "") in rules(edit)
    assert not [name for _, name, _, _ in rules(edit) if name.endswith("/status")]


def test_two_installations_share_no_name_but_those_of_namespaces_and_definitions(printed: Any) -> None:
    def identities(namespace: str) -> set[tuple[str, str, str]]:
        objects = printed("install", *FEW, "--namespace", namespace, "--watch-namespace", "team-a")
        meta = ((each["kind"], each["metadata"]) for each in objects)
        return {(kind, each.get("namespace", ""), each["name"]) for kind, each in meta}

    assert {kind for kind, _, _ in identities("one") & identities("two")} == {"CustomResourceDefinition"}


def test_image_and_number_are_as_asked(printed: Any) -> None:
    objects = printed("install", *FEW, "--image", "registry.example/pliant:1", "--replicas", "1")
    assert container(objects)["image"] == "registry.example/pliant:1"
    assert of_kind(objects, "Deployment")[0]["spec"]["replicas"] == 1
    assert "PodDisruptionBudget" not in kinds(objects)


@pytest.mark.parametrize(
    "words", [("--namespace", "default"), ("--namespace", "team-a", "--watch-namespace", "team-a")]
)
def test_a_namespace_that_others_use_stays_as_it_is(printed: Any, words: tuple[str, ...]) -> None:
    assert "Namespace" not in kinds(printed("install", *FEW, *words))


def test_what_is_taken_away_is_what_was_put_there_but_for_jobs_and_namespace(printed: Any) -> None:
    words = (*FEW, "--namespace", "ops", "--watch-namespace", "team-a")
    put = [each for each in printed("install", *words) if each["kind"] != "Namespace"]
    taken = printed("uninstall", *words)
    assert taken == [each for each in reversed(put) if each["kind"] != "CustomResourceDefinition"]
    assert kinds(taken)[:2] == ["PodDisruptionBudget", "Deployment"]
    assert kinds(taken)[-1] == "ServiceAccount"


def test_definitions_go_last_and_only_when_asked_for(printed: Any) -> None:
    without = printed("uninstall", *FEW)
    assert "CustomResourceDefinition" not in kinds(without)
    taken = printed("uninstall", *FEW, "--crds")
    assert taken[: len(without)] == without
    assert kinds(taken[len(without) :]) == ["CustomResourceDefinition"] * 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--namespace", "Team_A"), "`Team_A` is not a valid namespace; use a-z, 0-9 and `-`"),
        (("--watch-namespace", ""), "`` is not a valid namespace"),
        (("--replicas", "0"), "`0` is not a positive integer"),
        (("--image", ""), "`` is not an image"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["install", *words])
    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


def test_the_operator_may_not_gain_rights_run_commands_in_pods_or_change_nodes() -> None:
    everything = {
        rule for kind in ("ClusterRole", "Role") for role in of_kind(print_every_kind(), kind) for rule in rules(role)
    }
    verbs = {verb for _, _, verb, _ in everything}
    assert not verbs & {"*", "escalate", "bind", "impersonate"}
    assert not {resource for _, resource, _, _ in everything} & {"*", "pods/exec", "pods/attach", "pods/portforward"}
    assert not {group for group, _, _, _ in everything} & {"*", "admissionregistration.k8s.io"}
    assert {verb for _, resource, verb, _ in everything if resource.startswith("nodes")} <= {"get", "list", "watch"}
    # The one Secret that the operator reads is its own.
    assert {name for _, resource, verb, name in everything if resource == "secrets" and verb != "create"} == {
        "pliant-operator-reports"
    }
