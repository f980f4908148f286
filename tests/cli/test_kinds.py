"""Option --kinds: which words name which kinds, and what an installation of some kinds consists of."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.cli.commands.admin.operator import check_any_kind_served
from pliant.cli.explain.cluster_checks import FindingSeverity, examine_cluster
from pliant.cli.input.kinds_option import choose_crds, choose_kinds, crd_name, format_kinds_option
from pliant.cli.input.operator_options import DEFAULT_LEASE_NAME
from pliant.cli.input.problems import InvalidInput
from pliant.cli.main import main
from pliant.controllers.rbac.permissions import operator_permissions
from pliant.errors import UnsupportedEnvironment
from pliant.frontends import FRONTENDS
from pliant.frontends.families import API_GROUP_BY_FAMILY
from pliant.plugins.registry import registered_kinds
from tests.embedded.serving import serving
from tests.quickyaml import documents

MASTER_ONLY = {"serviceaccounts", "roles", "rolebindings", "scaleplans", "scaleplans/status"}
"""Resources that only ElasticJobs need."""


def names(*words: str) -> list[str]:
    return [crd_name(kind) for kind in choose_kinds(words)]


def allowed(*words: str) -> set[tuple[str, str]]:
    """Each resource and verb that an operator of these kinds may use."""
    rights = operator_permissions(DEFAULT_LEASE_NAME, choose_kinds(words))
    return {(str(right), verb) for right in rights for verb in right.verbs}


@pytest.mark.parametrize("family", API_GROUP_BY_FAMILY)
def test_a_family_is_every_kind_of_its_api_group(family: str) -> None:
    expected = [crd_name(kind) for kind in registered_kinds().values() if kind.group == API_GROUP_BY_FAMILY[family]]
    assert expected
    assert names(family) == names(API_GROUP_BY_FAMILY[family]) == expected


def test_every_kind_of_pliant_has_a_family() -> None:
    assert {kind.group for kind in FRONTENDS.values()} == set(API_GROUP_BY_FAMILY.values())


@pytest.mark.parametrize(
    "word", ["PyTorchJob", "pytorchjob", "pytorchjobs", "PyTorchJob.kubeflow.org", "pytorchjobs.kubeflow.org"]
)
def test_a_kind_is_chosen_by_any_of_its_names(word: str) -> None:
    assert names(word) == ["pytorchjobs.kubeflow.org"]


def test_short_names_are_names() -> None:
    assert names("aitj", "pdj") == ["aitrainingjobs.elasticdeeplearning.ai", "paddlejobs.batch.paddlepaddle.org"]


def test_without_words_every_kind_is_chosen() -> None:
    assert choose_kinds(()) == tuple(registered_kinds().values())
    assert format_kinds_option(choose_kinds(())) == ""


def test_a_name_of_several_groups_is_refused_with_the_full_names() -> None:
    with pytest.raises(InvalidInput) as refused:
        choose_kinds(["PaddleJob"])
    [problem] = refused.value.problems
    assert problem.message == "several API groups have a kind `PaddleJob`"
    for name in ("paddlejobs.paddlepaddle.org", "paddlejobs.kubeflow.org", "paddlejobs.batch.paddlepaddle.org"):
        assert name in problem.fix
        assert names(name) == [name]


def test_an_unknown_word_is_refused_with_what_can_be_chosen() -> None:
    with pytest.raises(InvalidInput) as refused:
        choose_kinds(["paddle", "nothing"])
    [problem] = refused.value.problems
    assert problem.message == "unknown kind `nothing`"
    assert all(family in problem.fix for family in API_GROUP_BY_FAMILY)
    assert all(kind.kind in problem.fix for kind in registered_kinds().values())


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["pj", "tj"], "paddle"),
        (["dl", "PyTorchJob", "mxjobs.mpba.fbk.eu"], "pytorchjobs.kubeflow.org,dl"),
        (list(API_GROUP_BY_FAMILY), ""),
    ],
)
def test_the_argument_chooses_the_same_kinds_with_whole_families_by_name(words: list[str], argument: str) -> None:
    assert format_kinds_option(choose_kinds(words)) == argument
    assert choose_kinds(filter(None, argument.split(","))) == choose_kinds(words)


def test_plans_are_defined_with_their_jobs_or_alone() -> None:
    def plurals(*words: str) -> list[str]:
        return [crd["spec"]["names"]["plural"] for crd in choose_crds(words)]

    assert plurals("elasticjob") == plurals("ElasticJob", "ScalePlan") == ["elasticjobs", "scaleplans"]
    assert plurals("scaleplans.elastic.iml.github.io") == ["scaleplans"]


@pytest.mark.parametrize("words", [[family] for family in API_GROUP_BY_FAMILY] + [["PyTorchJob"], ["paddle", "dl"]])
def test_fewer_kinds_need_fewer_rights_and_none_beyond_those_of_all(words: list[str]) -> None:
    some = allowed(*words)
    assert some < allowed()
    resources = {name.partition(".")[0] for name, _ in some}
    assert resources >= MASTER_ONLY if "elasticjob" in words else not MASTER_ONLY & resources
    others = {crd_name(kind) for kind in registered_kinds().values()} - set(names(*words))
    assert not others & {name for name, _ in some}


def test_an_installation_of_some_kinds_speaks_of_these_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["install", "--kinds", "paddle,dl", "--kinds=PyTorchJob"])
    objects = documents(capsys.readouterr().out)
    groups = {"paddlepaddle.org", "mpba.fbk.eu", "kubeflow.org"}
    defined = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert [crd["metadata"]["name"] for crd in defined] == names("paddle", "dl", "PyTorchJob")
    [view, edit] = [each for each in objects if "pliant-" in each["metadata"]["name"] and is_for_users(each)]
    for role in (view, edit):
        assert {group for rule in role["rules"] for group in rule["apiGroups"]} == groups
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--kinds=paddle,pytorchjobs.kubeflow.org,dl"


def is_for_users(manifest: dict[str, Any]) -> bool:
    return manifest["kind"] == "ClusterRole" and "aggregate-to" in str(manifest["metadata"])


@pytest.mark.parametrize("command", ["crds", "install", "uninstall", "operator", "doctor"])
def test_every_command_refuses_an_unknown_kind(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--kinds", "nothing"])
    assert exit_.value.code == 2
    assert "unknown kind `nothing`" in capsys.readouterr().err


def test_an_empty_list_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["install", "--kinds="])
    assert exit_.value.code == 2
    assert "no kind given; omit the option for all kinds" in capsys.readouterr().err


async def test_an_operator_of_some_kinds_asks_for_these_alone() -> None:
    async with serving() as served:
        await install_crds(served.client, choose_kinds(["paddle"]))
        await check_any_kind_served(served.client, (), choose_kinds(["paddle", "PyTorchJob"]))
        with pytest.raises(UnsupportedEnvironment, match=r"serves no job kind of dl; .*pliant crds --kinds dl "):
            await check_any_kind_served(served.client, (), choose_kinds(["dl"]))


async def test_the_doctor_looks_at_the_definitions_of_some_kinds() -> None:
    async with serving() as served:
        await install_crds(served.client, choose_kinds(["paddle"]))
        found = {}
        for word in ("paddle", "dl"):
            looked = examine_cluster(served.client, None, "home", choose_kinds([word]))
            found[word] = {each.topic: each async for each in looked}["CRDs"]
    assert (found["paddle"].severity, found["dl"].severity) == (FindingSeverity.OK, FindingSeverity.ERROR)
    assert "pliant crds --kinds dl |" in found["dl"].fix
