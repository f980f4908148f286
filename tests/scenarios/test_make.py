"""The verbs of the Makefile at clusters: definitions come and go, and an operator in a terminal runs jobs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from pliant.cli.cluster.operator_manifests import crd_manifests
from tests.cli.making import made, make_typed, making
from tests.cli.ordinary_user import ROOT
from tests.controlplane.fixtures import GIVEN
from tests.controlplane.installed import kubectl
from tests.scenarios.cluster import Site, without_operator
from tests.scenarios.conftest import ON_REAL, rather_on_real
from tests.scenarios.jobs import group, job
from tests.scenarios.scene import PATIENCE

pytestmark = pytest.mark.kubectl

BASES = str(ROOT / "config" / "crd" / "bases")
SAMPLES = (
    "elasticjob.elastic.iml.github.io/elasticjob-sample",
    "scaleplan.elastic.iml.github.io/elasticjob-sample-by-hand",
)
OURS = {crd["metadata"]["name"] for crd in crd_manifests()}


on_embedded = pytest.mark.parametrize("ground", ["embedded"], indirect=True)
on_real = pytest.mark.parametrize("ground", [ON_REAL], indirect=True)


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    if ground == "real" and os.environ.get(GIVEN):
        pytest.skip(f"{GIVEN} names a cluster, whose definitions are not ours to take away")
    with without_operator(ground) as started:
        yield started


def make(site: Site, *words: str) -> str:
    """What a verb says; one that fails ends the test."""
    ended = made(site.user, *words, KUBECONFIG=str(site.kubeconfig))
    assert ended.code == 0, ended.err
    return ended.out


def asked(site: Site, *words: str, stdin: str = "") -> str:
    return kubectl(site.kubeconfig, f"--cache-dir={site.user.home / 'cache'}", *words, stdin=stdin)


def objects(site: Site, *words: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(asked(site, "get", *words, "-o", "json"))["items"]
    return listed


def established(site: Site) -> set[str]:
    """The definitions that are served, of ours."""
    found = objects(site, "customresourcedefinitions")
    is_served = {
        crd["metadata"]["name"]: any(
            (each["type"], each["status"]) == ("Established", "True") for each in crd["status"]["conditions"]
        )
        for crd in found
    }
    return {name for name in OURS if is_served.get(name)}


def wait_established(site: Site) -> None:
    names = [f"crd/{name}" for name in sorted(OURS)]
    asked(site, "wait", "--for=condition=Established", f"--timeout={PATIENCE}s", *names)
    assert established(site) == OURS


@rather_on_real
def test_install_and_run_in_one_go_work_on_jobs_until_interrupted(site: Site) -> None:
    written = job("t", {"worker": group("exit 0", 2)})
    with making(site.user, "install", "run", KUBECONFIG=str(site.kubeconfig)):
        wait_established(site)
        asked(site, "apply", "-f", "-", stdin=json.dumps(written))
        asked(site, "wait", "--for=jsonpath={.status.phase}=Succeed", "aitrainingjob/t", f"--timeout={PATIENCE}s")
        asked(site, "apply", "-f", str(ROOT / "config" / "samples"))
        # No real master runs here, so the plan waits for its first request.
        runs = "--for=jsonpath={.status.phase}=Running"
        asked(site, "wait", runs, "elasticjob/elasticjob-sample", f"--timeout={PATIENCE}s")
        asked(site, "delete", "-f", str(ROOT / "config" / "samples"))
    asked(site, "delete", "aitrainingjob", "t")


@pytest.mark.deep  # tests/real/test_some_kinds.py and test_crd.py apply files and definitions
def test_the_folder_of_definitions_is_taken_as_it_is_and_install_takes_over(site: Site) -> None:
    assert asked(site, "apply", "-f", BASES).count("customresourcedefinition") == len(OURS)
    assert make(site, "install").count("serverside-applied") == len(OURS)
    wait_established(site)
    taken = asked(site, "apply", "--dry-run=server", "--validate=strict", "-f", str(ROOT / "config" / "samples"))
    assert taken.splitlines() == [f"{name} created (server dry run)" for name in SAMPLES]


# The tests beside it show both halves.
@pytest.mark.deep
@on_embedded
def test_what_the_folder_taught_uninstall_takes_away(site: Site) -> None:
    asked(site, "apply", "-f", BASES)
    make(site, "uninstall")
    assert established(site) == set()
    assert make(site, "uninstall") == ""


@on_embedded
def test_uninstall_lists_jobs_and_deletes_them_only_when_told_to(site: Site) -> None:
    there = {"KUBECONFIG": str(site.kubeconfig)}
    both = {"aitrainingjobs.elasticdeeplearning.ai", "paddlejobs.paddlepaddle.org"}
    listed = "  2 AITrainingJob.elasticdeeplearning.ai in namespace default: one, two\n"
    make(site, "uninstall")
    make(site, "install", "KINDS=aitj,pj")
    for name in ("one", "two"):
        asked(site, "apply", "-f", "-", stdin=json.dumps(job(name, {"worker": group("exit 0", 2)})))

    refused = made(site.user, "uninstall", **there)
    assert refused.code == 2
    assert listed in refused.err
    assert "nothing was deleted; fix: delete the jobs first" in refused.err
    assert "Error 2" in refused.err, "the script's own exit code"
    denied = make_typed(site.user, "y\n", "uninstall", **there)
    assert denied.code == 2
    assert listed in denied.err
    assert "Type yes to delete: nothing was deleted\n" in denied.err
    assert established(site) == both
    assert "paddlejobs.paddlepaddle.org" in make(site, "uninstall", "KINDS=paddle"), "of these there are no jobs"
    assert established(site) == both - {"paddlejobs.paddlepaddle.org"}
    assert len(objects(site, "aitrainingjobs")) == 2

    deleted = make_typed(site.user, "yes\n", "uninstall", **there)
    assert deleted.code == 0, deleted.err
    assert established(site) == set()


@on_embedded
def test_uninstall_does_not_ask_when_forced(site: Site) -> None:
    make(site, "install", "KINDS=aitj")
    asked(site, "apply", "-f", "-", stdin=json.dumps(job("t", {"worker": group("exit 0", 2)})))
    make(site, "uninstall", "FORCE=1")
    assert established(site) == set()


@on_embedded
def test_an_operator_is_deployed_on_the_embedded_cluster_and_taken_away(site: Site) -> None:
    make(site, "deploy")
    available = "--for=condition=Available", f"--timeout={PATIENCE}s"
    asked(site, "wait", "--namespace=pliant-system", *available, "deployment/pliant-operator")
    make(site, "undeploy", "uninstall")
    assert not {"Deployment/pliant-operator", "Namespace/pliant-system"} & deployed(site)
    assert established(site) == set()


# tests/real/test_installed.py applies the same manifests; this test also waits for their deletion.
@pytest.mark.deep
@on_real
def test_an_operator_is_deployed_with_the_image_asked_for_and_taken_away_whole(site: Site) -> None:
    make(site, "deploy", "IMG=easydl/elasticjob-controller:master")
    assert images(site) == ["easydl/elasticjob-controller:master"]
    assert {"Deployment/pliant-operator", "ClusterRole/pliant-operator.pliant-system"} <= deployed(site)
    make(site, "deploy")
    folders = str(ROOT / "config" / "default")
    assert asked(site, "diff", "--server-side", "--force-conflicts", "-k", folders) == ""
    make(site, "undeploy", "uninstall")
    assert deployed(site) == set()
    assert established(site) == set()


def deployed(site: Site) -> set[str]:
    """The parts of the operator that are on the cluster, by kind and name."""
    kinds = "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,services,deployments,pdb"
    found = objects(site, kinds, "--all-namespaces") + objects(site, "namespaces")
    titles = (f"{each['kind']}/{each['metadata']['name']}" for each in found)
    return {title for title in titles if "pliant" in title}


def images(site: Site) -> list[str]:
    """What the pods of the Deployment run."""
    [deployment] = objects(site, "deployments", "--namespace", "pliant-system")
    return [each["image"] for each in deployment["spec"]["template"]["spec"]["containers"]]
