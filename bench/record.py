"""Records a real run on two terminals, and draws it: `python -m bench.record docs/images/run.svg`.

One shell runs the elastic quickstart; in the other one it is scaled, and a worker is killed, while it trains.
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

from bench.picture import Window, svg
from bench.terminal import Row, Terminal

ROOT = Path(__file__).parents[1]
COLUMNS = 100
FRAME = 0.1
"""Seconds: pictures that follow each other faster are one."""
PATIENCE = 60.0
READING = 5.0
"""Seconds for which the end is shown before the film begins again."""
KEY = 0.03
PROMPT = r"\[\e[1;32m\]$\[\e[0m\] "


@dataclass
class Shell:
    """A shell on a terminal of its own, and everything that was to be seen there."""

    terminal: Terminal
    keys: int
    film: list[tuple[float, tuple[Row, ...]]] = field(default_factory=list)
    waiting: list[tuple[str, asyncio.Future[None]]] = field(default_factory=list)

    @classmethod
    def started(cls, rows: int, environment: dict[str, str]) -> Shell:
        """Start it, in the folder of the project."""
        child, keys = pty.fork()
        if child == 0:
            os.chdir(ROOT)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "+m"], environment)
        fcntl.ioctl(keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
        shell = cls(Terminal(COLUMNS, rows), keys)
        asyncio.get_running_loop().add_reader(keys, shell._read)
        return shell

    def _read(self) -> None:
        try:
            data = os.read(self.keys, 65536)
        except OSError:  # the shell has ended
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.keys)
            return
        self.terminal.feed(data)
        self._take_picture()
        text = self.terminal.text()
        for words, seen in self.waiting:
            if words in text and not seen.done():
                seen.set_result(None)

    def _take_picture(self) -> None:
        now, shown = asyncio.get_running_loop().time(), self.terminal.shown()
        if self.film and now - self.film[-1][0] < FRAME:
            self.film[-1] = (self.film[-1][0], shown)
        elif not self.film or self.film[-1][1] != shown:
            self.film.append((now, shown))

    async def type(self, words: str) -> None:
        """Press keys as people do."""
        for key in f"{words}\r":
            os.write(self.keys, key.encode())
            await asyncio.sleep(KEY)

    async def until(self, words: str) -> None:
        """Wait until these words are on the screen."""
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((words, seen))
        async with asyncio.timeout(PATIENCE):
            await seen


def worker(rank: int, home: str) -> int:
    """The process of a worker of the run whose files are in that folder."""
    told = {f"TRAININGJOB_REPLICA_INDEX={rank}".encode(), f"HOME={home}".encode()}
    for folder in Path("/proc").iterdir():
        try:
            is_worker = folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(b"python3\0/app/")
            if is_worker and told <= set((folder / "environ").read_bytes().split(b"\0")):
                return int(folder.name)
        except OSError:
            continue  # it has ended, or is somebody else's
    raise LookupError(f"worker {rank} does not run")


async def play(home: str) -> tuple[Shell, Shell]:
    """The whole piece."""
    environment = {
        "HOME": home,
        "TMPDIR": home,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PS1": PROMPT,
    }
    first, second = Shell.started(18, environment), Shell.started(9, environment)
    await asyncio.sleep(0.5)
    await first.type("pliant run examples/quickstart/elastic.yaml")
    await first.until("step=30 ")
    await second.type("pliant scale elastic 4")
    await first.until("4 workers now")
    await first.until("step=80 ")
    await second.type(f"kill -9 {worker(1, home)}    # worker-1")
    await first.until("1 restart")
    await first.until("step=120 ")
    await second.type("pliant get")
    await first.until("succeeded in")
    await asyncio.sleep(0.5)
    return first, second


def cut(shell: Shell, began: float) -> list[tuple[float, tuple[Row, ...]]]:
    """The film from the beginning of the piece on."""
    return [(max(at - began, 0.0), shown) for at, shown in shell.film]


def main(target: Path) -> None:
    """Play, record and draw."""
    with tempfile.TemporaryDirectory(prefix="pliant-record-") as home:
        first, second = asyncio.run(play(home))
    began = min(first.film[0][0], second.film[0][0])
    films = [cut(shell, began) for shell in (first, second)]
    seconds = max(film[-1][0] for film in films) + READING
    titles = ("a training job on a laptop, without a cluster", "another terminal")
    windows = [
        Window(title=title, columns=COLUMNS, rows=shell.terminal.rows, film=film)
        for title, shell, film in zip(titles, (first, second), films, strict=True)
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(svg(windows, seconds))
    print(first.terminal.text(), second.terminal.text(), sep="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "run.svg")
