"""A copy of the repository in which bugs can be planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.planted.bug import Bug

ROOT = Path(__file__).resolve().parents[2]


class Tree:
    """A copy of the repository with a virtual environment of its own.

    Programs that tests start run the installed command `pliant`, from folders outside of the repository. So it is
    not enough to run the tests in the copy: its virtual environment must install the copy, too.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._edits = 0

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """Plant a bug for as long as the block runs."""
        path = self.root / bug.file
        original = path.read_text()
        self._write(path, bug.plant(original))
        try:
            yield
        finally:
            self._write(path, original)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python compares times in whole seconds when it looks for compiled modules: each edit gets its own.
        self._edits += 1
        modified = int(path.stat().st_mtime) + self._edits * 10
        os.utime(path, (modified, modified))


@contextmanager
def copied_tree() -> Iterator[Tree]:
    """Copy all files that git tracks or would track, and remove the copy at the end."""
    # As root the tests run as nobody, who must be able to read the copy.
    with tempfile.TemporaryDirectory(prefix="pliant-planted-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        for name in _listed_files():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        _make_environment(root)
        yield Tree(root)


def _listed_files() -> list[str]:
    asked = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in told.split("\0") if name and (ROOT / name).is_file()]


def _make_environment(root: Path) -> None:
    """Make a virtual environment with our packages, in which `pliant` is the copy."""
    venv = root / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = sysconfig.get_path("purelib")
    inside = sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)})
    # The first path wins. Path files inside the second, such as that of our own editable install, are not read.
    (Path(inside) / "planted.pth").write_text(f"{root}\n{packages}\n")
    ours = sysconfig.get_path("scripts")
    for script in Path(ours).iterdir():
        if script.is_file() and not script.is_symlink() and not (venv / "bin" / script.name).exists():
            _copy_script(script, venv / "bin" / script.name, ours)
    for stamp in Path(ours).parent.glob(".installed-*"):
        shutil.copy2(stamp, venv / stamp.name)


def _copy_script(script: Path, target: Path, ours: str) -> None:
    content = script.read_bytes()
    if content.startswith(f"#!{ours}".encode()):
        content = content.replace(ours.encode(), str(target.parent).encode(), 1)
    target.write_bytes(content)
    target.chmod(0o755)
