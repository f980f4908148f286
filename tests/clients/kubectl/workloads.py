"""Checks of the commands about Deployments and Jobs."""

from __future__ import annotations

from tests.clients.kubectl.session import Kubectl

_SLEEP = ("--image=none", "--", "sleep", "1000")


def deploy(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--replicas=2", *_SLEEP)
    assert 'deployment "web" successfully rolled out' in kubectl("rollout", "status", "deployment/web", "--timeout=15s")
    assert kubectl("get", "deployment", "web", "--no-headers").split()[1] == "2/2"
    assert kubectl("scale", "deployment/web", "--replicas=1", "--timeout=15s") == "deployment.apps/web scaled\n"
    kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=1", "--timeout=15s")
    kubectl("delete", "deployment", "web")
    kubectl("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=15s")


def roll_out(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "rolled", *_SLEEP)
    kubectl("set", "env", "deployment/rolled", "COLOR=red")
    kubectl("set", "image", "deployment/rolled", "none=other")
    kubectl("rollout", "status", "deployment/rolled", "--timeout=20s")
    assert "REVISION" in kubectl("rollout", "history", "deployment/rolled")
    assert "rolled back" in kubectl("rollout", "undo", "deployment/rolled")
    assert kubectl.field("deployment/rolled", ".spec.template.spec.containers[0].image") == "none"
    assert "restarted" in kubectl("rollout", "restart", "deployment/rolled")
    kubectl("rollout", "pause", "deployment/rolled")
    kubectl("rollout", "resume", "deployment/rolled")
    kubectl("rollout", "status", "deployment/rolled", "--timeout=20s")
    kubectl("delete", "deployment", "rolled")


def run_a_job(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=none", "--", "echo", "done")
    kubectl("wait", "job/once", "--for=condition=Complete", "--timeout=15s")
    assert kubectl("logs", "job/once") == "done\n"
    assert kubectl("get", "job", "once", "--no-headers").split()[:3] == ["once", "Complete", "1/1"]
    kubectl("delete", "job", "once")
    kubectl("wait", "pods", "-l", "job-name=once", "--for=delete", "--timeout=15s")
