"""kubectl of one version, in a namespace of its own."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]

PATIENCE = 20.0
"""Seconds after which a command that should have ended, or printed something, fails the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    program: Path
    version: str
    kubeconfig: str
    home: Path
    namespace: str

    def start(self, *words: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start kubectl with a cache of its own."""
        cache = self.home / f"cache-{self.version}"
        command = [str(self.program), f"--cache-dir={cache}", f"--namespace={self.namespace}", *words]
        environment = {**os.environ, "KUBECONFIG": self.kubeconfig, "HOME": str(self.home), **(env or {})}
        return subprocess.Popen(command, env=environment, cwd=self.home, **options)

    def run(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Output:
        """Run kubectl to its end."""
        pipe = subprocess.PIPE
        with self.start(*words, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                out, err = process.communicate(stdin.encode(), PATIENCE)
            finally:
                process.kill()
        return Output(code=process.returncode, out=out.decode(), err=err.decode())

    def __call__(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """Return what kubectl prints; fail if it fails."""
        ended = self.run(*words, stdin=stdin, env=env)
        assert ended.code == 0, (words, ended)
        return ended.out

    def error(self, *words: str, stdin: str = "") -> str:
        """Return the error that kubectl prints; fail if it succeeds."""
        ended = self.run(*words, stdin=stdin)
        assert ended.code != 0, (words, ended)
        return ended.err

    def apply(self, *objects: Object) -> str:
        return self("apply", "-f", "-", stdin=manifest(*objects))

    def field(self, resource: str, path: str) -> str:
        """Return a field of an object by its JSON path."""
        return self("get", resource, "-o", f"jsonpath={{{path}}}")

    @contextmanager
    def following(self, *words: str) -> Iterator[Follower]:
        """Run kubectl while a check reads what it prints."""
        process = self.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            yield Follower(process)
        finally:
            process.kill()
            process.communicate()


class Follower:
    """The output of a command that goes on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._read = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Read until the output matches a pattern; continue behind the match."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + PATIENCE
        while (match := re.search(pattern, self._read)) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} is not in {self._read!r}"
            if select.select([descriptor], [], [], left)[0]:
                chunk = os.read(descriptor, 65536)
                assert chunk, f"the command ended: {pattern!r} is not in {self._read!r}"
                self._read += chunk.decode()
        self._read = self._read[match.end() :]
        return match


def config_map(name: str, labels: Mapping[str, str] | None = None, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(name, labels), "data": data}


def widget(name: str, size: int) -> Object:
    """Return an object of the CRD of these checks."""
    return {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}


def pod(name: str, script: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """Return a pod whose container runs a script of the shell."""
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(name, labels), "spec": spec}


def manifest(*objects: Object) -> str:
    """Return objects in JSON, one after the other."""
    return "".join(json.dumps(each) + "\n" for each in objects)


def _metadata(name: str, labels: Mapping[str, str] | None) -> Object:
    return {"name": name, "labels": labels} if labels else {"name": name}
