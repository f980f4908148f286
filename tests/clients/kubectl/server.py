"""Checks of the commands about the server, its kinds and access to it."""

from __future__ import annotations

import json
import urllib.request

from tests.clients.kubectl.session import PATIENCE, Kubectl, manifest


def explain(kubectl: Kubectl) -> None:
    assert "containers\t<[]Container> -required-" in kubectl("explain", "pods.spec")
    assert "ENUM:\n    Always\n    IfNotPresent\n" in kubectl("explain", "pods.spec.containers.imagePullPolicy")
    assert "GROUP:      rbac.authorization.k8s.io\nKIND:       Role\n" in kubectl("explain", "role")
    assert "size\t<integer>" in kubectl("explain", "widgets.spec")
    assert 'field "none" does not exist' in kubectl.error("explain", "pods.none")


def explain_recursively(kubectl: Kubectl) -> None:
    recursive = kubectl("explain", "pods", "--recursive")
    assert "secretKeyRef\t<SecretKeySelector>" in recursive
    assert "openAPIV3Schema\t<JSONSchemaProps>" in kubectl("explain", "crd", "--recursive")
    old = kubectl("explain", "pods.spec.containers", "--recursive", "--output=plaintext-openapiv2")
    assert "resources\t<Object>" in old
    assert "colour\t<string>" in kubectl("explain", "widgets", "--recursive", "--output=plaintext-openapiv2")


def list_kinds(kubectl: Kubectl) -> None:
    kinds = kubectl("api-resources", "--no-headers")
    assert any(line.split() == ["pods", "po", "v1", "true", "Pod"] for line in kinds.splitlines())
    assert "widgets.example.org\n" in kubectl("api-resources", "--api-group=example.org", "-o", "name")
    assert {"v1", "example.org/v1", "policy/v1"} <= set(kubectl("api-versions").splitlines())


def describe_the_server(kubectl: Kubectl) -> None:
    version = json.loads(kubectl("version", "-o", "json"))
    assert version["clientVersion"]["gitVersion"] == f"v{kubectl.version}"
    assert version["serverVersion"]["gitVersion"].endswith("+pliant")
    assert "Kubernetes control plane" in kubectl("cluster-info")
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "(NotFound)" in kubectl.error("get", "--raw", "/nowhere")


def proxy(kubectl: Kubectl) -> None:
    with kubectl.following("proxy", "--port=0") as output:
        address = output.until(r"Starting to serve on (\S+)\n")[1]
        with urllib.request.urlopen(f"http://{address}/api/v1/namespaces/default", timeout=PATIENCE) as reply:
            assert json.load(reply)["kind"] == "Namespace"


def authorize(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    account = f"--as=system:serviceaccount:{kubectl.namespace}:default"
    assert kubectl.run("auth", "can-i", "list", "pods", account).out == "no\n"
    assert "cannot list resource" in kubectl.error("get", "pods", account)
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "kubernetes-admin" in kubectl("auth", "whoami")


def reconcile_roles(kubectl: Kubectl) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reconciled", "namespace": kubectl.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    reconciled = kubectl("auth", "reconcile", "-f", "-", stdin=manifest(role))
    assert "role.rbac.authorization.k8s.io/reconciled reconciled" in reconciled
