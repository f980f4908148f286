"""`pliant install` at a real cluster: what it prints is taken, suffices, and is no more than needed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest
import yaml

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import LEASES, NAMESPACES, Resource
from pliant.model.messages import NO_MESSAGE
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, ControlPlane, started
from tests.controlplane.deployed import DeployedOperator, run_deployed
from tests.controlplane.fixtures import require
from tests.controlplane.installed import (
    ACCOUNT,
    HOME,
    KUBECTL,
    Object,
    kubectl,
    may,
    operator_account,
    printed,
    wait_served,
)
from tests.quickyaml import without_definitions
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.messages import create_errors
from tests.scenarios.scene import JOBS, PATIENCE, Scene, a_scene

pytestmark = pytest.mark.real

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE = f"{ACCOUNT}.{HOME}"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own: nothing but the installation has taught it our kinds."""
    with installed() as up:
        yield up


@contextmanager
def installed() -> Iterator[ControlPlane]:
    require(ETCD, API_SERVER, CONTROLLERS, KUBECTL)
    with started(controllers=False) as up:
        kubectl(up.kubeconfig, "apply", "-f", "-", stdin=printed("install"))
        wait_served(up.kubeconfig, JOBS.full_name)
        # Only now: the garbage collector looks for kinds when it starts, and then every 30 seconds.
        up.start_controllers()
        yield up


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[KubeClient]:
    transport = create_transport(plane.kubeconfig, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()


@pytest.fixture
async def scene(client: KubeClient) -> AsyncIterator[Scene]:
    """A fresh namespace; there are no nodes, so pods stay as they were made."""
    async with a_scene(client) as opened:
        yield opened


@contextmanager
def running(plane: ControlPlane, folder: Path, *options: str, home: str = HOME) -> Iterator[DeployedOperator]:
    """The operator that the Deployment of an installation with these options would start."""
    objects = without_definitions(printed("install", "--namespace", home, *options))
    with run_deployed(plane.kubeconfig, folder, objects, home) as operator:
        yield operator


async def doctor(operator: DeployedOperator, *words: str) -> str:
    """What the doctor says of somebody with the operator's account."""
    return await asyncio.to_thread(operator.doctor, *words)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what nobody announces: that a role is in force, that a line is in a log."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None


@pytest.mark.deep  # test_crd.py applies definitions twice
def test_applied_again_it_changes_nothing(plane: ControlPlane) -> None:
    assert kubectl(plane.kubeconfig, "diff", "-f", "-", stdin=printed("install")) == ""


def test_its_pods_are_admitted_where_only_restricted_ones_are(plane: ControlPlane) -> None:
    [deployment] = [each for each in without_definitions(printed("install")) if each["kind"] == "Deployment"]
    pod: Object = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "tried", "namespace": HOME}
    words = ("create", "--dry-run=server", "-f", "-")
    assert "created" in kubectl(plane.kubeconfig, *words, stdin=yaml.safe_dump(pod))
    for part in ("allowPrivilegeEscalation", "capabilities"):
        loose = json.loads(json.dumps(pod))
        del loose["spec"]["containers"][0]["securityContext"][part]
        with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
            kubectl(plane.kubeconfig, *words, stdin=yaml.safe_dump(loose))


def test_the_deployment_makes_its_pods(plane: ControlPlane) -> None:
    made = "--for=jsonpath={.status.unavailableReplicas}=2"  # there is no node for them
    kubectl(plane.kubeconfig, "wait", made, f"deployment/{ACCOUNT}", "--namespace", HOME, f"--timeout={PATIENCE}s")
    pods = json.loads(kubectl(plane.kubeconfig, "get", "pods", "--namespace", HOME, "-o", "json"))["items"]
    assert [pod["spec"]["serviceAccountName"] for pod in pods] == [ACCOUNT, ACCOUNT]


async def test_its_account_suffices_for_jobs_and_election(plane: ControlPlane, scene: Scene, tmp_path: Path) -> None:
    with running(plane, tmp_path) as operator:
        await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
        await scene.until(lambda: len(scene.pods) == 2 and len(scene.services) == 2, "both members made")
        await scene.until(lambda: scene.phase("t") == "Pending", "a status")
        [lease] = (await scene.client.list(LEASES, HOME)).items
        assert lease["metadata"]["name"] == ACCOUNT
        assert lease["spec"]["holderIdentity"]
        assert "✓ permissions" in await doctor(operator)
        assert not may(operator.kubeconfig, "get", "secrets", "--all-namespaces")
        assert not may(operator.kubeconfig, "patch", "leases/another", "--namespace", HOME)
        assert not may(operator.kubeconfig, "create", "leases", "--namespace", "default")
        assert operator.complaints == []


async def test_a_privileged_template_is_stopped_by_the_pod_security_of_its_namespace(
    plane: ControlPlane, scene: Scene, tmp_path: Path
) -> None:
    label = "pod-security.kubernetes.io/enforce=baseline"
    kubectl(plane.kubeconfig, "label", "namespace", scene.namespace, label)
    privileged = group(FOREVER)
    privileged["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with running(plane, tmp_path):
        await scene.submit(job("after", {"worker": privileged}))
        await scene.until(lambda: 'violates PodSecurity "baseline' in error(scene), "a message that says why")
        assert scene.pods == {}


@pytest.mark.parametrize(
    ("resource", "verb", "who_is_told"),
    [
        ("pods", "create", "user"),
        ("services", "create", "user"),
        ("pods", "delete", "administrator"),
        ("aitrainingjobs/status", "patch", "administrator"),
    ],
)
async def test_a_right_taken_away_is_told_by_verb_and_resource_and_given_back_heals(
    plane: ControlPlane, scene: Scene, tmp_path: Path, resource: str, verb: str, who_is_told: str
) -> None:
    needle = f'cannot {verb} resource "{resource}" in API group'
    role = await scene.client.get(ROLES, None, CLUSTER_ROLE)
    with running(plane, tmp_path) as operator:
        await scene.submit(job("before", {"worker": group(FOREVER, 2)}))
        await scene.until(lambda: len(scene.pods) == 2, "the operator at work")
        try:
            await scene.client.patch(ROLES, None, CLUSTER_ROLE, {"rules": without(role, resource, verb)})
            asked = (verb, *resource_words(resource))
            await until(lambda: not may(operator.kubeconfig, *asked), "the right gone")
            await scene.submit(job("after", {"worker": group(FOREVER)}))
            await scene.edit("before", {"spec": {"replicaSpecs": {"worker": {"replicas": 1}}}})
            if who_is_told == "user":
                await scene.until(lambda: needle in error(scene), "a message about it")
                assert f"system:serviceaccount:{HOME}:{ACCOUNT}" in error(scene)
            else:
                await until(lambda: any(needle in reason for reason in operator.reasons), needle)
        finally:
            await scene.client.patch(ROLES, None, CLUSTER_ROLE, {"rules": role["rules"]})
        await scene.until(lambda: set(scene.pods) == {"before-worker-0", "after-worker-0"}, "all as it should be")
        await scene.until(
            lambda: scene.message("after") != NO_MESSAGE and needle not in error(scene), "the complaint gone"
        )


def error(scene: Scene) -> str:
    """Why a member of the job cannot be created, as the job tells; empty if it is not told."""
    return create_errors(scene.message("after")).get("after-worker-0", "")


def resource_words(resource: str) -> list[str]:
    """As `kubectl auth can-i` wants a resource and its part."""
    name, _, part = resource.partition("/")
    return [name, *([f"--subresource={part}"] if part else [])]


def without(role: Object, resource: str, verb: str) -> list[Object]:
    """The rules of a role, less one verb on one resource; a rule without any is none."""
    apart = ({**rule, "resources": [each]} for rule in role["rules"] for each in rule["resources"])
    left = (
        {**rule, "verbs": [each for each in rule["verbs"] if each != verb or rule["resources"] != [resource]]}
        for rule in apart
    )
    return [rule for rule in left if rule["verbs"]]


async def test_with_namespaces_to_watch_it_has_rights_in_these_alone(
    plane: ControlPlane, client: KubeClient, tmp_path: Path
) -> None:
    home = f"home-{uuid.uuid4().hex[:6]}"
    async with a_scene(client) as one, a_scene(client) as two, a_scene(client) as other:
        options = ("--watch-namespace", one.namespace, "--watch-namespace", two.namespace)
        words = ("--namespace", home, *options)
        kubectl(plane.kubeconfig, "apply", "-f", "-", stdin=printed("install", *words))
        with running(plane, tmp_path, *options, home=home) as operator:
            for scene in (other, one, two):
                await scene.submit(job("t", {"worker": group(FOREVER)}))
            await one.until(lambda: len(one.pods) == 1, "a member")
            await two.until(lambda: len(two.pods) == 1, "a member")
            assert other.pods == {}
            for scene in (one, two):
                place = ("--namespace", scene.namespace, "--lease-namespace", home)
                assert "✓ permissions" in await doctor(operator, *place)
            assert "✗ permissions" in await doctor(operator)
            assert not may(operator.kubeconfig, "create", "pods", "--namespace", other.namespace)
            assert not may(operator.kubeconfig, "list", "pods", "--all-namespaces")
        kubectl(plane.kubeconfig, "delete", "-f", "-", stdin=printed("uninstall", *words))
        assert not may(operator.kubeconfig, "create", "pods", "--namespace", one.namespace)
    await client.delete(NAMESPACES, None, home)


async def test_an_operator_that_may_not_see_nodes_says_so_and_does_without(
    plane: ControlPlane, scene: Scene, tmp_path: Path
) -> None:
    operator_account(plane.kubeconfig, tmp_path / "account", scene.namespace, [scene.namespace])
    role = f"{ACCOUNT}.{scene.namespace}"
    kubectl(plane.kubeconfig, "delete", f"clusterrole/{role}", f"clusterrolebinding/{role}")
    with running(plane, tmp_path, "--watch-namespace", scene.namespace, home=scene.namespace) as operator:
        await scene.submit(job("t", {"worker": group(FOREVER)}))
        await scene.until(lambda: len(scene.pods) == 1, "a member")
        assert any('cannot list resource "nodes"' in reason for reason in operator.reasons)


@pytest.mark.deep  # needs a control plane of its own; tests/scenarios/test_make.py deploys and undeploys
async def test_jobs_outlive_the_operator_and_only_their_definitions_take_them_away(tmp_path: Path) -> None:
    with installed() as plane:
        async with aclosing(create_transport(plane.kubeconfig, None, SystemClock().now)) as transport:
            scene = Scene(KubeClient(transport), "default")
            await scene.open()
            try:
                await _outlive(scene, plane, tmp_path)
            finally:
                await scene.close()


async def _outlive(scene: Scene, plane: ControlPlane, folder: Path) -> None:
    with running(plane, folder):
        await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
        await scene.until(lambda: len(scene.pods) == 2, "both members made")
    before = {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}
    words = ("delete", "--ignore-not-found", "-f", "-")
    kubectl(plane.kubeconfig, *words, stdin=printed("uninstall"))
    assert kubectl(plane.kubeconfig, "get", "deployments,poddisruptionbudgets", "--all-namespaces") == ""
    assert {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()} == before
    assert scene.job("t")
    kubectl(plane.kubeconfig, *words, stdin=printed("uninstall", "--crds"))
    await scene.until(lambda: not scene.pods, "the members gone with their job")
