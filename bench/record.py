"""Records a real run on two terminals and renders it as SVG: `python -m bench.record docs/images/run.svg`.

One shell runs the elastic quickstart. During training, the other shell scales the job and kills a worker.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import sys
import tempfile
import termios
from dataclasses import dataclass, field
from pathlib import Path

from bench.terminal import Row, Terminal
from bench.terminal_svg import TerminalWindow, render_svg

ROOT = Path(__file__).parents[1]
COLUMNS = 100
MIN_FRAME_SECONDS = 0.1
"""Changes within this time are merged into one frame."""
TIMEOUT = 60.0
LAST_FRAME_SECONDS = 5.0
"""How long the last frame is shown before the animation repeats."""
KEY_INTERVAL = 0.03
PROMPT = r"\[\e[1;32m\]$\[\e[0m\] "


@dataclass
class Shell:
    """A shell on its own pseudo-terminal, with all frames that it showed."""

    terminal: Terminal
    master_fd: int
    frames: list[tuple[float, tuple[Row, ...]]] = field(default_factory=list)
    waiters: list[tuple[str, asyncio.Future[None]]] = field(default_factory=list)

    @classmethod
    def start(cls, rows: int, environment: dict[str, str]) -> Shell:
        """Start a shell in the root directory of the repository."""
        child, master_fd = pty.fork()
        if child == 0:
            os.chdir(ROOT)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "+m"], environment)
        fcntl.ioctl(master_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
        shell = cls(Terminal(COLUMNS, rows), master_fd)
        asyncio.get_running_loop().add_reader(master_fd, shell._read)
        return shell

    def _read(self) -> None:
        try:
            data = os.read(self.master_fd, 65536)
        except OSError:  # the shell has ended
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.master_fd)
            return
        self.terminal.feed(data)
        self._add_frame()
        text = self.terminal.text()
        for expected, found in self.waiters:
            if expected in text and not found.done():
                found.set_result(None)

    def _add_frame(self) -> None:
        now, rows = asyncio.get_running_loop().time(), self.terminal.rows_shown()
        if self.frames and now - self.frames[-1][0] < MIN_FRAME_SECONDS:
            self.frames[-1] = (self.frames[-1][0], rows)
        elif not self.frames or self.frames[-1][1] != rows:
            self.frames.append((now, rows))

    async def type_command(self, command: str) -> None:
        """Type a command at the speed of a person, and press Enter."""
        for key in f"{command}\r":
            os.write(self.master_fd, key.encode())
            await asyncio.sleep(KEY_INTERVAL)

    async def wait_for_text(self, text: str) -> None:
        """Wait until the screen shows this text."""
        found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append((text, found))
        async with asyncio.timeout(TIMEOUT):
            await found


def find_worker_process(rank: int, home: str) -> int:
    """Return the process id of a worker of the run with this home directory."""
    expected = {f"TRAININGJOB_REPLICA_INDEX={rank}".encode(), f"HOME={home}".encode()}
    for folder in Path("/proc").iterdir():
        try:
            is_worker = folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(b"python3\0/app/")
            if is_worker and expected <= set((folder / "environ").read_bytes().split(b"\0")):
                return int(folder.name)
        except OSError:
            continue  # the process has ended, or belongs to another user
    raise LookupError(f"worker {rank} is not running")


async def run_demo(home: str) -> tuple[Shell, Shell]:
    """Run the commands of the demonstration in two shells."""
    environment = {
        "HOME": home,
        "TMPDIR": home,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PS1": PROMPT,
    }
    first, second = Shell.start(18, environment), Shell.start(9, environment)
    await asyncio.sleep(0.5)
    await first.type_command("pliant run examples/quickstart/elastic.yaml")
    await first.wait_for_text("step=30 ")
    await second.type_command("pliant scale elastic 4")
    await first.wait_for_text("4 workers now")
    await first.wait_for_text("step=80 ")
    await second.type_command(f"kill -9 {find_worker_process(1, home)}    # worker-1")
    await first.wait_for_text("1 restart")
    await first.wait_for_text("step=120 ")
    await second.type_command("pliant get")
    await first.wait_for_text("succeeded in")
    await asyncio.sleep(0.5)
    return first, second


def shift_frames(shell: Shell, start: float) -> list[tuple[float, tuple[Row, ...]]]:
    """Return the frames with times relative to the start of the recording."""
    return [(max(at - start, 0.0), rows) for at, rows in shell.frames]


def main(target: Path) -> None:
    """Run the demonstration and render its recording."""
    with tempfile.TemporaryDirectory(prefix="pliant-record-") as home:
        first, second = asyncio.run(run_demo(home))
    start = min(first.frames[0][0], second.frames[0][0])
    recordings = [shift_frames(shell, start) for shell in (first, second)]
    seconds = max(frames[-1][0] for frames in recordings) + LAST_FRAME_SECONDS
    titles = ("a training job on a laptop, without a cluster", "another terminal")
    windows = [
        TerminalWindow(title=title, columns=COLUMNS, rows=shell.terminal.rows, frames=frames)
        for title, shell, frames in zip(titles, (first, second), recordings, strict=True)
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render_svg(windows, seconds))
    print(first.terminal.text(), second.terminal.text(), sep="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "run.svg")
