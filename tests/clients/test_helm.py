"""Helm installs, changes and removes a chart."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.go_programs import HELM, require_program
from tests.clients.results import ClientResults
from tests.controlplane.build import KUBERNETES, cache_folder, folder_of
from tests.scenarios.cluster import Site

pytestmark = pytest.mark.clients

CLIENT = f"Helm {HELM.version}"
LIMIT_SECONDS = 60
CHART = "demo"
VALUES = {
    "command": ["python3", "-m", "http.server", "8080"],
    "service": {"port": 8080},
    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
}
FETCH = "import sys, urllib.request as request; request.urlopen(f'http://{sys.argv[1]}')"
HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, command: [sh, -c, "exit 0"]}]
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.helm.pliant.test}
spec:
  group: helm.pliant.test
  scope: Namespaced
  names: {plural: gears, kind: Gear}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
GEAR = """
apiVersion: helm.pliant.test/v1
kind: Gear
metadata: {name: {{ .Release.Name }}}
spec: {replicas: {{ .Values.replicaCount }}}
"""


class Programs:
    """Runs Helm and kubectl in a folder with a chart."""

    def __init__(self, site: Site, folder: Path) -> None:
        homes = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self._environ = {**os.environ, **homes, "KUBECONFIG": str(site.kubeconfig)}
        self._folder = folder
        self._kubectl = folder_of(cache_folder(os.environ), KUBERNETES) / "kubectl"

    def helm(self, *words: str) -> str:
        return self._run(require_program(HELM.name), *words)

    def kubectl(self, *words: str) -> str:
        return self._run(self._kubectl, *words)

    def _run(self, program: Path, *words: str) -> str:
        command = [str(program), *words]
        options = {"capture_output": True, "text": True, "timeout": LIMIT_SECONDS, "check": False}
        ran = subprocess.run(command, cwd=self._folder, env=self._environ, **options)  # type: ignore[call-overload]
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return str(ran.stdout)

    def replicas(self) -> tuple[str, str]:
        """Return the number of ready replicas of the Deployment, and the field of the custom object."""
        ready = self.kubectl("get", "deployment", CHART, "-o", "jsonpath={.status.readyReplicas}")
        return ready, self.kubectl("get", "gear", CHART, "-o", "jsonpath={.spec.replicas}")


@pytest.fixture
def programs(site: Site, tmp_path: Path) -> Programs:
    """Helm, with the chart of `helm create`, a command for its container, a hook and a custom kind."""
    programs = Programs(site, tmp_path)
    programs.helm("create", CHART)
    templates = tmp_path / CHART / "templates"
    deployment = templates / "deployment.yaml"
    lines = deployment.read_text().splitlines()
    image = next(number for number, line in enumerate(lines) if line.strip().startswith("image:"))
    lines.insert(image, f"{lines[image].partition('image')[0]}command: {{{{ toJson .Values.command }}}}")
    deployment.write_text("\n".join(lines))
    check = templates / "tests" / "test-connection.yaml"
    check.write_text(check.read_text().replace("['wget']", json.dumps(["python3", "-c", FETCH])))
    (templates / "hook.yaml").write_text(HOOK)
    (templates / "gear.yaml").write_text(GEAR)
    (tmp_path / CHART / "crds").mkdir()
    (tmp_path / CHART / "crds" / "gear.yaml").write_text(CRD)
    (tmp_path / "values.json").write_text(json.dumps(VALUES))
    return programs


def test_helm_installs_changes_and_removes_a_chart(programs: Programs, client_results: ClientResults) -> None:
    wait = ("--wait", "--timeout", f"{LIMIT_SECONDS - 5}s")
    values = ("-f", "values.json")

    def passed(*checks: str) -> None:
        for check in checks:
            client_results.record(CLIENT, check)

    programs.helm("install", CHART, f"./{CHART}", *values, *wait)
    assert programs.replicas() == ("1", "1")
    assert programs.kubectl("get", "jobs", "-o", "name") == ""
    passed("install --wait", "crds/", "hooks (Job)")
    assert "deployed" in programs.helm("list")
    assert f"deployment.apps/{CHART}" in programs.helm("status", CHART) + programs.kubectl("get", "all", "-o", "name")
    assert "kind: Deployment" in programs.helm("get", "manifest", CHART)
    passed("list, status, get")
    programs.helm("upgrade", CHART, f"./{CHART}", *values, "--set", "replicaCount=2", "--dry-run=server")
    assert programs.replicas() == ("1", "1")
    passed("upgrade --dry-run=server")
    programs.helm("upgrade", CHART, f"./{CHART}", *values, "--set", "replicaCount=2", *wait)
    assert programs.replicas() == ("2", "2")
    passed("upgrade --wait")
    programs.helm("rollback", CHART, "1", *wait)
    assert programs.replicas() == ("1", "1")
    passed("rollback --wait")
    history = json.loads(programs.helm("history", CHART, "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]
    passed("history")
    assert "Succeeded" in programs.helm("test", CHART)
    passed("test")
    programs.helm("uninstall", CHART, *wait)
    for kind in ("deployments", "replicasets", "services", "secrets", "gears"):
        left = programs.kubectl("get", kind, "-o", "name", "-l", f"app.kubernetes.io/instance={CHART}")
        assert left == "", left
    passed("uninstall --wait")


def test_an_installation_that_does_not_become_ready_is_rolled_back(
    programs: Programs, client_results: ClientResults
) -> None:
    broken = ("-f", "values.json", "--set", "command={sh,-c,exit 1}")
    with pytest.raises(AssertionError, match=r"not ready|deadline|timed out|InProgress"):
        programs.helm("install", CHART, f"./{CHART}", *broken, "--rollback-on-failure", "--wait", "--timeout", "5s")
    assert json.loads(programs.helm("list", "-o", "json")) == []
    client_results.record(CLIENT, "install --rollback-on-failure of a chart that does not become ready")


def test_a_chart_with_an_ingress_fails_with_the_message_of_the_server(
    programs: Programs, client_results: ClientResults
) -> None:
    values = ("-f", "values.json", "--set", "ingress.enabled=true")
    for mode in ("--server-side=true", "--server-side=false"):
        with pytest.raises(AssertionError, match="Ingress is not supported by the embedded cluster"):
            programs.helm("install", CHART, f"./{CHART}", *values, mode)
        programs.helm("uninstall", CHART, "--wait", "--timeout", f"{LIMIT_SECONDS - 5}s")
    assert programs.kubectl("get", "deployments", "-o", "name", "-l", f"app.kubernetes.io/instance={CHART}") == ""
    client_results.record(CLIENT, "install of a chart with an Ingress fails with the reason; uninstall")
