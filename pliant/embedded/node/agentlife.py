"""One process of the agent and our ends of all that leads to it, from its first words to its end."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from pliant.embedded.node.agentprocess import PATIENCE, Greeting, Launch, ended, greeting, readable, spawned
from pliant.embedded.node.arrivals import Arrivals
from pliant.embedded.node.channel import Channel


class AgentLife:
    """An agent that is ready; when it is lost, another life may follow."""

    def __init__(
        self, process: subprocess.Popen[bytes], handover: socket.socket, hello: Greeting, channel: Channel
    ) -> None:
        self.process = process
        self.handover = handover
        self.arrivals = Arrivals(handover)
        self.hello = hello
        self.channel = channel
        self._inner = list(_handles_below(process.pid))

    @classmethod
    async def begun(cls, launch: Launch, on_lost: Callable[[], None]) -> AgentLife:
        """An agent that has said that it is ready; `on_lost` is called should it end without being asked to."""
        ours, theirs = socket.socketpair()
        handover, its_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with ExitStack() as unless_it_goes_well:
            unless_it_goes_well.enter_context(ours)
            unless_it_goes_well.enter_context(handover)
            ours.setblocking(False)
            handover.setblocking(False)
            with theirs, its_end:
                process = spawned(launch, theirs, its_end)
            try:
                hello = await asyncio.wait_for(greeting(ours), PATIENCE)
                loop = asyncio.get_running_loop()
                _, channel = await loop.create_unix_connection(lambda: Channel(on_lost), sock=ours)
            except BaseException:
                await ended(process, ours)
                raise
            unless_it_goes_well.pop_all()
        return cls(process, handover, hello, channel)

    async def end(self) -> None:
        """Have it end, if it has not, and return when everything of it is gone; asking again is harmless."""
        if self.hello.listener is not None:
            self.hello.listener.close()
        self.channel.close()
        await ended(self.process)
        while self._inner:
            # Where only the outer process was killed, the kernel ends the one inside, and that all others.
            handle = self._inner.pop()
            with suppress(TimeoutError):
                await asyncio.wait_for(readable(handle), PATIENCE)
            os.close(handle)
        self.handover.close()


def _handles_below(process: int) -> Iterator[int]:
    with suppress(OSError):  # not every kernel tells of children, and some have gone already
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            yield os.pidfd_open(int(child))
