"""Stock kubectl of several versions works on `pliant up`, command by command."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from pliant.embedded.registry.discovery import KUBERNETES_VERSION
from tests.cli.ordinary_user import NOBODY, OrdinaryUser
from tests.cli.test_up_down import kubeconfig_from
from tests.clients.environments import KUBECTL_VERSIONS
from tests.clients.kubectl import objects, pods, server, workloads
from tests.clients.kubectl.session import Kubectl
from tests.clients.results import ClientResults
from tests.controlplane.build import cache_folder, folder_of
from tests.embedded.serving import widget_crd

pytestmark = pytest.mark.clients

CHECKS: dict[str, Callable[[Kubectl], None]] = {
    "`apply`": objects.apply,
    "`get -o yaml | apply -f -`, also of lists": objects.apply_what_get_prints,
    "`apply --server-side`": objects.apply_server_side,
    "`apply --prune -l`, `--prune-allowlist`": objects.apply_and_prune,
    "`apply --prune --applyset`": objects.apply_and_prune_a_set,
    "`apply` of an unknown kind is refused as by Kubernetes": objects.refuse_an_unknown_kind,
    "`apply`, `create` of an unsupported kind say what to use instead": objects.refuse_an_unsupported_kind,
    "`apply --validate=strict`, `warn`, `ignore`": objects.validate_fields,
    "`apply -k`": objects.apply_a_kustomization,
    "`apply view-last-applied`, `set-last-applied`": objects.show_what_was_applied,
    "`diff`": objects.diff,
    "`create -f`, `generateName`, `--dry-run=server`": objects.create_from_a_file,
    "`create configmap`, `secret`, `role` and 12 others, `create token`": objects.create_by_options,
    "`replace`, `replace --force`": objects.replace,
    "`get`: tables, `-o wide`, `yaml`, `json`, `jsonpath`, …, selectors": objects.get,
    "`get -w`": objects.get_and_watch,
    "`describe`": objects.describe,
    "`label`, `annotate`": objects.label_and_annotate,
    "`patch`: strategic, merge, JSON; `--subresource`": objects.patch,
    "`edit`": objects.edit,
    "`scale`": objects.scale,
    "`wait --for=condition`, `jsonpath`, `create`, `delete`": objects.wait,
    "`delete`, with finalizers": objects.delete,
    "`delete --cascade=orphan`, `foreground`, `background`": objects.delete_dependents,
    "`delete --force`, `--now`": pods.delete_pods,
    "`logs`": pods.logs,
    "`logs -f`": pods.logs_follow,
    "`exec`": pods.execute,
    "`attach`": pods.attach,
    "`cp`": pods.copy,
    "`port-forward`": pods.port_forward,
    "`debug`, `debug --copy-to`": pods.debug,
    "`run`, `run -i --rm`": pods.run,
    "`create deployment`, `scale`": workloads.deploy,
    "`rollout status`, `history`, `undo`, `restart`, `pause`; `set env`": workloads.roll_out,
    "`create job`": workloads.run_a_job,
    "`expose`, `set selector`": pods.expose,
    "`set image`": pods.set_image,
    "`top pods`, `top nodes`": pods.top,
    "`events`": pods.events,
    "`cordon`, `drain`, `uncordon`": pods.cordon_and_drain,
    "`taint`": pods.taint,
    "`explain`": server.explain,
    "`explain --recursive`, `--output=plaintext-openapiv2`": server.explain_recursively,
    "`api-resources`, `api-versions`": server.list_kinds,
    "`version`, `cluster-info`, `get --raw`": server.describe_the_server,
    "`proxy`": server.proxy,
    "`auth can-i`, `auth whoami`, `--as`": server.authorize,
    "`auth reconcile`": server.reconcile_roles,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Path, str]]:
    """A cluster of two nodes: the home of its user, and its kubeconfig."""
    home = Path(tempfile.mkdtemp(prefix="pliant-home-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    user = OrdinaryUser(home)
    up = user.run("up", "--nodes", "2")
    try:
        assert up.code == 0, up.err
        yield home, kubeconfig_from(up.out)
    finally:
        user.run("down", "--purge")
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def find_session(cluster: tuple[Path, str]) -> Callable[[str], Kubectl]:
    """Return the kubectl of a version, with its namespace and what the checks need in it."""
    home, kubeconfig = cluster

    @cache
    def find(version: str) -> Kubectl:
        program = folder_of(cache_folder(os.environ), version) / "kubectl"
        if not program.exists():
            pytest.skip(f"kubectl {version} is not built: python -m tests.clients builds it")
        namespace = f"kubectl-{version.replace('.', '-')}"
        kubectl = Kubectl(program=program, version=version, kubeconfig=kubeconfig, home=home, namespace=namespace)
        kubectl.apply(widget_crd())
        kubectl("wait", "crd/widgets.example.org", "--for=condition=Established", "--timeout=10s")
        pods.prepare(kubectl)
        return kubectl

    return find


@pytest.mark.parametrize("version", KUBECTL_VERSIONS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: CHECKS[check].__name__)
def test_kubectl_works_as_on_a_real_cluster(
    find_session: Callable[[str], Kubectl], client_results: ClientResults, check: str, version: str
) -> None:
    CHECKS[check](find_session(version))
    client_results.record(f"kubectl {version}", check)


def test_the_server_has_the_version_of_the_newest_kubectl() -> None:
    assert KUBECTL_VERSIONS[-1] == KUBERNETES_VERSION
