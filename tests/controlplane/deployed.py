"""The operator of a Deployment, run as a process here, with the account and the arguments of its pods."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.installed import HOME, Object, account_kubeconfig

PATIENCE = 30.0
"""Seconds after which an operator that should have stopped is taken to hang."""


class DeployedOperator:
    """An operator under its own account, and its log."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self.kubeconfig = kubeconfig
        self._log = log

    @property
    def said(self) -> list[Object]:
        """Its log, record by record; anything else in it fails the test."""
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def reasons(self) -> list[str]:
        """Why something did not go as it should."""
        warnings = (record for record in self.said if record["level"] == "warning")
        return [str(record.get("error") or record.get("reason")) for record in warnings]

    @property
    def complaints(self) -> list[Object]:
        """The records of its log that are warnings or errors."""
        return [record for record in self.said if record["level"] in ("warning", "error")]

    def doctor(self, *words: str) -> str:
        """What `pliant doctor` prints for the operator's account."""
        program = [sys.executable, "-m", "pliant", "doctor", "--kubeconfig", str(self.kubeconfig), *words]
        return str(subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE).stdout)


@contextmanager
def run_deployed(admin: Path, folder: Path, objects: Iterable[Object], home: str = HOME) -> Iterator[DeployedOperator]:
    """Run what the Deployment among these objects would start, on ports that are free here."""
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    words = [f"{word.partition('=')[0]}=0" if "bind-address" in word else word for word in container["args"]]
    kubeconfig = account_kubeconfig(admin, folder / "kubeconfig", home)
    log = folder / "operator.log"
    command = [sys.executable, "-m", "pliant", *words, "--kubeconfig", str(kubeconfig)]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        found = DeployedOperator(kubeconfig, log)
        try:
            yield found
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(PATIENCE)
    assert process.returncode == 0, log.read_text()
    assert found.said[-1]["message"] == "operator stopped"
    assert [record for record in found.said if "traceback" in record] == []
