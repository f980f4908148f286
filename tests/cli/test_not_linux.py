"""On other systems, commands that need Linux say so in one sentence, and the others work without POSIX modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = """
import signal, sys
POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in POSIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in ("SIGHUP", "SIGQUIT", "SIGBUS", "SIGPIPE", "SIGXCPU", "pthread_sigmask"):
    delattr(signal, name)
"""
LIBRARIES = ", aiohttp, rich.console"
LOAD_EVERYTHING = """
from importlib import import_module
from pkgutil import iter_modules
from pliant.cli.linux_only import LINUX_COMMANDS
import pliant.cli.cluster, pliant.cli.explain, pliant.cli.input, pliant.cli.output, pliant.cli.script
from pliant.cli.main import COMMAND_SUMMARIES, CommandParser, load_command

for command in COMMAND_SUMMARIES.keys() - LINUX_COMMANDS:
    load_command(command).configure(CommandParser())
for package in (pliant.cli.cluster, pliant.cli.explain, pliant.cli.input, pliant.cli.output, pliant.cli.script):
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        if module.name != "pliant.cli.cluster.local_operator":  # the operator of a local cluster
            import_module(module.name)
print("loaded")
"""


def run_elsewhere(code: str, platform: str, folder: Path, libraries: str = "") -> subprocess.CompletedProcess[str]:
    # The modules of Python and of libraries were chosen for Linux already: only ours meet the other system.
    script = f"{ELSEWHERE}\nimport asyncio, subprocess, tempfile{libraries}\nsys.platform = {platform!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def pliant_elsewhere(platform: str, folder: Path, *words: str, libraries: str = "") -> subprocess.CompletedProcess[str]:
    return run_elsewhere(f"from pliant.cli.main import main\nmain({list(words)!r})", platform, folder, libraries)


def test_the_modules_of_commands_about_other_clusters_need_no_posix(tmp_path: Path) -> None:
    done = run_elsewhere(LOAD_EVERYTHING, "win32", tmp_path, LIBRARIES)
    assert done.stdout == "loaded\n", done.stderr


@pytest.mark.parametrize(
    ("platform", "command", "instead"),
    [
        ("darwin", ["run", "train.py"], "`lima pliant run`"),
        ("win32", ["up"], "`wsl pliant up`"),
        ("win32", ["node", "kill", "node-0"], "WSL 2"),
    ],
)
def test_what_needs_linux_says_what_to_use_instead(
    tmp_path: Path, platform: str, command: list[str], instead: str
) -> None:
    (tmp_path / "train.py").write_text("")
    done = pliant_elsewhere(platform, tmp_path, *command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: `pliant {command[0]}` needs Linux")
    assert instead in done.stderr
    assert "--context NAME" in done.stderr


def test_a_script_is_turned_into_a_job_on_any_system(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch")
    done = pliant_elsewhere("darwin", tmp_path, "run", "train.py", "--workers", "2", "--dry-run")
    assert "frameworkType: pytorch" in done.stdout, done.stderr


def test_a_cluster_that_does_not_answer_is_named_on_any_system(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        " users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    done = pliant_elsewhere("win32", tmp_path, "get", "--kubeconfig", str(config), libraries=LIBRARIES)
    assert done.returncode == 2, done.stderr
    assert "http://127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
