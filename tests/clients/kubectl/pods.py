"""Checks of the commands about pods and nodes."""

from __future__ import annotations

import os
import re
import urllib.request

from tests.clients.kubectl.session import PATIENCE, Kubectl, pod

TICKER = pod("ticker", "echo began; n=0; while sleep 0.2; do n=$((n+1)); echo tick $n; done", {"app": "ticker"})
"""A pod that runs as long as the checks; `prepare` creates it."""
SERVER = "cd $(mktemp -d) && echo hello > index.html && exec python3 -m http.server 8080 --bind 127.0.0.1"


def prepare(kubectl: Kubectl) -> None:
    """Create the namespace of the checks and the pod that several of them use."""
    kubectl("create", "namespace", kubectl.namespace)
    kubectl.apply(TICKER)
    kubectl("wait", "pod/ticker", "--for=condition=Ready", "--timeout=15s")


def logs(kubectl: Kubectl) -> None:
    assert kubectl("logs", "ticker").startswith("began\ntick 1\n")
    assert len(kubectl("logs", "ticker", "--tail=1").splitlines()) == 1
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z began", kubectl("logs", "ticker", "--timestamps"))
    assert kubectl("logs", "ticker", "--limit-bytes=5") == "began"
    assert "tick" in kubectl("logs", "-l", "app=ticker", "--prefix", "--all-containers")
    assert kubectl("logs", "ticker", "--since-time=2100-01-01T00:00:00Z") == ""
    assert "container none is not valid for pod ticker" in kubectl.error("logs", "ticker", "-c", "none")


def logs_follow(kubectl: Kubectl) -> None:
    with kubectl.following("logs", "-f", "ticker", "--tail=0") as log:
        first = int(log.until(r"tick (\d+)\n")[1])
        assert int(log.until(r"tick (\d+)\n")[1]) == first + 1


def execute(kubectl: Kubectl) -> None:
    ended = kubectl.run("exec", "ticker", "--", "sh", "-c", "hostname; echo oops >&2; exit 3")
    assert (ended.code, ended.out) == (3, "ticker\n")
    assert ended.err == "oops\ncommand terminated with exit code 3\n"
    assert kubectl("exec", "-i", "ticker", "--", "wc", "-w", stdin="1 2 3").strip() == "3"
    assert "executable file not found in $PATH" in kubectl.error("exec", "ticker", "--", "no-such")


def attach(kubectl: Kubectl) -> None:
    with kubectl.following("attach", "ticker") as output:
        first = int(output.until(r"tick (\d+)\n")[1])
        assert int(output.until(r"tick (\d+)\n")[1]) == first + 1


def copy(kubectl: Kubectl) -> None:
    content = os.urandom(1_000_000)
    folder = kubectl.home / f"copies-{kubectl.version}"
    folder.mkdir(mode=0o777, exist_ok=True)
    folder.chmod(0o777)
    (kubectl.home / "sent").write_bytes(content)
    kubectl("cp", "sent", f"ticker:{folder}/there")
    kubectl("cp", f"ticker:{folder}/there", "back")
    assert (kubectl.home / "back").read_bytes() == content


def port_forward(kubectl: Kubectl) -> None:
    kubectl.apply(pod("server", SERVER))
    kubectl("wait", "pod/server", "--for=condition=Ready", "--timeout=15s")
    kubectl("exec", "server", "--", "sh", "-c", "until curl -sf 127.0.0.1:8080 >/dev/null; do sleep 0.1; done")
    with kubectl.following("port-forward", "--address=127.0.0.1", "pod/server", ":8080") as forwarding:
        port = forwarding.until(r"127.0.0.1:(\d+) -> 8080\n")[1]
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as reply:
                assert reply.read() == b"hello\n"


def run(kubectl: Kubectl) -> None:
    words = ("--image=none", "--restart=Never", "--command", "--")
    kubectl("run", "runner", "--labels=a=b", "--env=WORD=hi", *words, "sh", "-c", "echo $WORD")
    kubectl("wait", "pod/runner", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=15s")
    assert kubectl("logs", "runner") == "hi\n"
    interactive = ("run", "reader", "-i", "--rm", "--quiet", *words, "cat")
    assert kubectl(*interactive, stdin="hello\n").startswith("hello\n")
    assert kubectl("get", "pod", "reader", "--ignore-not-found") == ""


def expose(kubectl: Kubectl) -> None:
    assert kubectl("expose", "pod", "ticker", "--port=80", "--name=exposed") == "service/exposed exposed\n"
    assert kubectl.field("svc/exposed", ".spec.selector.app") == "ticker"
    kubectl("set", "selector", "svc/exposed", "app=other")
    assert kubectl.field("svc/exposed", ".spec.selector") == '{"app":"other"}'


def set_image(kubectl: Kubectl) -> None:
    kubectl("set", "image", "pod/ticker", "main=other")
    assert kubectl.field("pod/ticker", ".spec.containers[0].image") == "other"


def top(kubectl: Kubectl) -> None:
    [row] = [line.split() for line in kubectl("top", "pods", "--containers").splitlines() if line.startswith("ticker ")]
    assert row[1] == "main"
    assert re.fullmatch(r"\d+m \d+Mi", " ".join(row[2:]))
    assert "node-0" in kubectl("top", "nodes")


def events(kubectl: Kubectl) -> None:
    with kubectl.following("events", "--for", "pod/misfit", "--watch") as output:
        kubectl.apply(pod("misfit", "true", nodeSelector={"no": "where"}))
        output.until("FailedScheduling")
    assert "Warning" in kubectl("get", "events", "--field-selector=involvedObject.name=misfit")
    assert "FailedScheduling" in kubectl("describe", "pod", "misfit")


def delete_pods(kubectl: Kubectl) -> None:
    kubectl.apply(pod("stubborn", "trap '' TERM; echo up; while sleep 1; do :; done", terminationGracePeriodSeconds=60))
    kubectl("wait", "pod/stubborn", "--for=condition=Ready", "--timeout=15s")
    forced = kubectl.run("delete", "pod", "stubborn", "--force", "--grace-period=0")
    assert (forced.code, kubectl("get", "pod", "stubborn", "--ignore-not-found")) == (0, "")
    assert "Immediate deletion does not wait" in forced.err
    kubectl.apply(pod("ending", "sleep 100"))
    kubectl("delete", "pod", "ending", "--now")


def cordon_and_drain(kubectl: Kubectl) -> None:
    kubectl.apply(pod("drained", "sleep 100", nodeName="node-1"))
    kubectl("wait", "pod/drained", "--for=condition=Ready", "--timeout=15s")
    try:
        assert kubectl("cordon", "node-1") == "node/node-1 cordoned\n"
        assert "SchedulingDisabled" in kubectl("get", "node", "node-1")
        drained = kubectl("drain", "node-1", "--force", "--ignore-daemonsets", "--delete-emptydir-data")
        assert "pod/drained evicted" in drained
    finally:
        assert kubectl("uncordon", "node-1") == "node/node-1 uncordoned\n"


def taint(kubectl: Kubectl) -> None:
    kubectl("taint", "nodes", "node-1", "color=red:PreferNoSchedule")
    assert "red" in kubectl.field("node/node-1", ".spec.taints")
    assert kubectl("taint", "nodes", "node-1", "color-") == "node/node-1 untainted\n"


def debug(kubectl: Kubectl) -> None:
    words = ("--image=none", "--profile=general", "--container=helper", "--", "sh", "-c", "hostname; sleep 100")
    kubectl("debug", "ticker", *words)
    path = ".status.ephemeralContainerStatuses[?(@.name=='helper')].state.running.startedAt"
    kubectl("wait", "pod/ticker", f"--for=jsonpath={{{path}}}", "--timeout=15s")
    assert kubectl("logs", "ticker", "-c", "helper") == "ticker\n"
    copy = ("--copy-to=ticker-copy", "--container=main", "--", "sh", "-c", "echo copied; sleep 100")
    kubectl("debug", "ticker", *copy)
    kubectl("wait", "pod/ticker-copy", "--for=condition=Ready", "--timeout=15s")
    assert kubectl("logs", "ticker-copy", "-c", "main") == "copied\n"
