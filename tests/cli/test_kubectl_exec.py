"""Stock kubectl runs commands in pods, attaches to them, copies files and drains their node."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.ordinary_user import NOBODY, OrdinaryUser
from tests.cli.test_up_down import kubeconfig_from
from tests.kubectl import find_kubectl

PATIENCE = 15.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    env: [{name: COLOUR, value: green}]
    command: [sh, -c, "echo began; n=0; while sleep 0.2; do n=$((n+1)); echo tick $n; done"]
"""


@dataclass(frozen=True)
class Kubectl:
    """kubectl as somebody at a keyboard uses it."""

    user: OrdinaryUser
    kubeconfig: str

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        program = find_kubectl()
        command = [program, f"--cache-dir={self.user.home}/kube-cache", *words]
        environment = {**os.environ, "KUBECONFIG": self.kubeconfig}
        return subprocess.Popen(command, env=environment, **options)

    def __call__(self, *words: str, stdin: bytes = b"", code: int = 0) -> tuple[str, str]:
        """What it wrote, and what it complained of."""
        pipe = subprocess.PIPE
        with self.start(*words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            out, err = process.communicate(stdin, PATIENCE)
        assert process.returncode == code, (words, out, err)
        return out.decode(), err.decode()


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """A cluster with one pod that runs, for all tests here."""
    home = Path(tempfile.mkdtemp(prefix="pliant-home-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    user = OrdinaryUser(home)
    up = user.run("up")
    try:
        assert up.code == 0, up.err
        kubectl = Kubectl(user, kubeconfig_from(up.out))
        kubectl("apply", "-f", "-", stdin=POD.encode())
        kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=10s")
        yield kubectl
    finally:
        user.run("down", "--purge")
        shutil.rmtree(home)
    assert user.processes() == []


def test_a_command_runs_in_the_container_and_tells_its_exit_code(kubectl: Kubectl) -> None:
    script = "echo $COLOUR; hostname; echo oops >&2; exit 3"
    out, err = kubectl("exec", "p", "--", "sh", "-c", script, code=3)
    assert out == "green\np\n"
    assert err == "oops\ncommand terminated with exit code 3\n"


def test_input_reaches_a_command_to_its_end(kubectl: Kubectl) -> None:
    sent = os.urandom(3_000_000).hex().encode()
    out, _ = kubectl("exec", "-i", "p", "--", "sh", "-c", "wc -c; echo done", stdin=sent)
    assert out == "6000000\ndone\n"


def test_a_command_that_does_not_exist_is_named(kubectl: Kubectl) -> None:
    _, err = kubectl("exec", "p", "--", "no-such", code=1)
    assert 'exec: "no-such": executable file not found in $PATH' in err
    _, err = kubectl("exec", "p", "-c", "other", "--", "true", code=1)
    assert "container other is not" in err


def test_files_are_copied_there_and_back(kubectl: Kubectl) -> None:
    home = kubectl.user.home
    (home / "there").mkdir(mode=0o777, exist_ok=True)
    (home / "there").chmod(0o777)
    content = os.urandom(5_000_000)
    (home / "file").write_bytes(content)
    (home / "file").chmod(0o644)
    kubectl("cp", f"{home}/file", f"p:{home}/there/file")
    kubectl("cp", f"p:{home}/there/file", f"{home}/back")
    assert (home / "back").read_bytes() == content


def test_a_user_who_leaves_ends_the_command(kubectl: Kubectl) -> None:
    process = kubectl.start("exec", "p", "--", "sh", "-c", "echo up; exec sleep 4321", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.kill()
    process.communicate()
    eventually_gone(kubectl, "sleep 4321")


def test_a_terminal_has_a_size_and_job_control(kubectl: Kubectl) -> None:
    with Terminal(kubectl, "exec", "-it", "p", "--", "bash", "--norc") as terminal:
        shown = r"40 120\s+/dev/pts/\d+\s+xterm\s+ready> $"
        terminal.types("PS1='ready> '; stty size; tty; echo $TERM\n", until=shown)
        terminal.types("sleep 777\n", until="sleep 777\r\n")
        time.sleep(0.3)  # the shell shows the line before the program runs, and only that heeds Ctrl-C
        terminal.types("\x03", until=r"\^C\s+ready> $")
        terminal.types("sleep 778\n", until="sleep 778\r\n")
        time.sleep(0.3)  # as above, for Ctrl-Z
        terminal.types("\x1a", until=r"Stopped.*\s+ready> $")
        terminal.types("fg\n", until=r"fg\s+sleep 778\r\n")
        terminal.types("\x03", until=r"\^C\s+ready> $")
        terminal.types("exit 5\n", until="exit")
        assert terminal.ended() == 5
    eventually_gone(kubectl, "sleep 77[78]")


def test_attaching_shows_what_a_container_writes_from_now_on(kubectl: Kubectl) -> None:
    process = kubectl.start("attach", "p", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    first, second = process.stdout.readline().split(), process.stdout.readline().split()
    process.kill()
    process.communicate()
    assert first[0] == second[0] == b"tick"
    assert int(second[1]) == int(first[1]) + 1 > 1


def test_a_container_that_reads_hears_whoever_attaches(kubectl: Kubectl) -> None:
    run = ("run", "reader", "--image=none", "--restart=Never", "-i", "--quiet", "--command")
    out, _ = kubectl(*run, "--", "sh", "-c", "sleep 1; while read line; do echo heard $line; done", stdin=b"a\nb\n")
    assert out == "heard a\nheard b\n"
    kubectl("wait", "pod/reader", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=10s")
    assert kubectl("logs", "reader")[0] == out


def test_a_shell_of_its_own_pod(kubectl: Kubectl) -> None:
    words = ("run", "shell", "--image=none", "--restart=Never", "-it", "--rm", "--command", "--", "sh", "-c")
    with Terminal(kubectl, *words, "read word; exec bash --norc", prompt="enter.\r\n") as terminal:
        terminal.types("hi\n", until=r"bash.*\$ $")
        time.sleep(0.3)  # the size of the screen comes on a way of its own
        terminal.types("stty size; echo $TERM; exit 4\n", until=r"40 120\s+xterm\s")
        assert terminal.ended() == 4
    assert "shell" not in kubectl("get", "pods", "-o", "name")[0]


SERVER = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.reply(b"hello from " + self.path.encode())
    def do_POST(self): self.reply(self.rfile.read(int(self.headers["Content-Length"])))
    def reply(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Answer).serve_forever()
"""


def test_a_port_of_a_pod_is_reached_from_here(kubectl: Kubectl) -> None:
    run = ("run", "web", "--image=none", "--restart=Never", "--command", "--", "python3", "-uc", SERVER)
    kubectl(*run)
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=10s")
    kubectl("exec", "web", "--", "sh", "-c", "until curl -s localhost:8080 >/dev/null; do sleep 0.1; done")
    process = kubectl.start(
        "port-forward", "--address=127.0.0.1", "pod/web", ":8080", ":9", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline().decode() + process.stdout.readline().decode()
        port, dead = re.findall(r"127.0.0.1:(\d+) -> (?:8080|9)\n", said)
        content = os.urandom(5_000_000)
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/x", timeout=PATIENCE) as answer:
                assert answer.read() == b"hello from /x"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", content, PATIENCE) as answer:
                assert answer.read() == content
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", int(dead)), PATIENCE) as nobody:
            assert nobody.recv(1) == b""
    finally:
        process.kill()
        _, err = process.communicate()
    assert b"to the pod: connection refused" in err


def test_top_tells_what_pods_and_nodes_use(kubectl: Kubectl) -> None:
    head, *pods = kubectl("top", "pods", "--containers")[0].splitlines()
    assert head.split() == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
    (row,) = (each.split() for each in pods if each.startswith("p "))
    assert row[1] == "main"
    assert re.fullmatch(r"\d+m", row[2])
    assert re.fullmatch(r"\d+Mi", row[3])
    assert kubectl("top", "nodes")[0].splitlines()[1].startswith("node-0")


def eventually_gone(kubectl: Kubectl, pattern: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(re.search(pattern, each) for each in kubectl.user.processes()):
        assert time.monotonic() < deadline, f"{pattern} still runs"
        time.sleep(0.05)


class Terminal:
    """Somebody who types, and reads the screen."""

    def __init__(self, kubectl: Kubectl, *words: str, prompt: str = r"[$#] $") -> None:
        self._outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = kubectl.start(*words, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
        os.close(inner)
        self._seen = ""
        self._prompt = prompt

    def __enter__(self) -> Terminal:
        self._read(self._prompt)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._outer)

    def types(self, keys: str, *, until: str) -> None:
        """Press keys and wait until the screen shows a pattern after that."""
        self._seen = ""
        os.write(self._outer, keys.encode())
        self._read(until)

    def ended(self) -> int:
        """The exit code of kubectl, when it has ended."""
        try:
            self._read("never")
        except OSError:  # nobody else holds the terminal any longer
            return self._process.wait(PATIENCE)
        raise AssertionError("unreachable")

    def _read(self, pattern: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self._seen):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} is not in {self._seen!r}"
            if select.select([self._outer], [], [], left)[0]:
                self._seen = _CONTROL.sub("", self._seen + os.read(self._outer, 4096).decode())


def test_debug_starts_a_command_beside_a_container_and_sees_its_processes(kubectl: Kubectl) -> None:
    script = "read word; echo $word from $(hostname); cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    words = ("debug", "pod/p", "-qi", "--image=none", "--target=main", "-c", "beside", "--", "sh", "-c", script)
    out, _ = kubectl(*words, stdin=b"hello\n")
    assert out.startswith("hello from p\n")
    assert "echo began" in out
    status = "jsonpath={.status.ephemeralContainerStatuses[?(@.name=='beside')].state.terminated.reason}"
    kubectl("wait", "pod/p", f"--for={status}=Completed", "--timeout=10s")
    assert kubectl("logs", "p", "-c", "beside")[0] == out


def test_debug_has_a_terminal(kubectl: Kubectl) -> None:
    with Terminal(kubectl, "debug", "pod/p", "-qit", "--image=none", "--", "sh") as terminal:
        terminal.types("stty size\n", until=r"40 120")
        terminal.types("exit\n", until=r"exit")
