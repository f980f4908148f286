"""One more command in a container that runs already."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from pliant.embedded.node.execution import executed
from pliant.embedded.node.link import Ending, StartFailed, Streams
from tests.node.conftest import ONLY_PRIVATE, Node

MAIN = ("pod", "main")


async def test_a_session_has_the_variables_and_the_folder_of_its_container(agent: Node) -> None:
    (agent.data / "folder").mkdir(mode=0o777)
    command = agent.command("sleep", "60", folder=str(agent.data / "folder"))
    command["env"]["COLOUR"] = "green"
    await agent.agent.start(*MAIN, command)
    outcome = await executed(agent.agent, MAIN, ["sh", "-c", "pwd; echo $COLOUR"], within=5)
    assert outcome.output.splitlines() == [str(agent.data / "folder"), "green"]


@ONLY_PRIVATE
async def test_a_session_is_in_the_container(agent: Node) -> None:
    await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    script = "hostname; cat /proc/1/comm; cat /proc/[0-9]*/comm"
    outcome = await executed(agent.agent, MAIN, ["sh", "-c", script], within=5)
    host, first, *others = outcome.output.splitlines()
    assert host == "worker-0"
    assert first.startswith("python")
    assert "sleep" in others
    assert "sh" in others


async def test_a_session_reads_and_writes_what_it_is_given(agent: Node) -> None:
    await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    pipes = [os.pipe() for _ in range(3)]
    (its_input, ours), (output, its_output), (errors, its_errors) = pipes
    streams = Streams(input=its_input, output=its_output, errors=its_errors)
    session = await agent.agent.execute(
        *MAIN, ["sh", "-c", "read word; echo $word; echo oops >&2; exit 9"], streams
    )
    for each in (its_input, its_output, its_errors):
        os.close(each)
    os.write(ours, b"hello\n")
    assert await session.ending == Ending(9)
    assert (os.read(output, 99), os.read(errors, 99)) == (b"hello\n", b"oops\n")
    assert (os.read(output, 99), os.read(errors, 99)) == (b"", b""), "nobody else holds them"
    for each in (ours, output, errors):
        os.close(each)


async def test_a_session_may_have_a_terminal(agent: Node) -> None:
    await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    outer, inner = os.openpty()
    streams = Streams(input=inner, output=inner, errors=inner, terminal=True)
    session = await agent.agent.execute(
        *MAIN, ["sh", "-c", "exec 3<>/dev/tty && test -t 3 && echo controlled"], streams
    )
    assert await session.ending == Ending(0)
    assert os.read(outer, 99) == b"controlled\r\n"
    os.close(outer)
    os.close(inner)


async def test_a_session_whose_time_is_up_is_killed_with_its_children(agent: Node) -> None:
    # Without namespaces the processes of other tests are seen as well.
    own = os.getpid()
    await agent.agent.start(*MAIN, agent.command("sleep", f"60.{own}"))
    outcome = await executed(agent.agent, MAIN, ["sh", "-c", f"echo begun; sleep 61.{own}; true"], within=1.5)
    assert (outcome.code, outcome.output) == (None, "begun\n")
    look = ["sh", "-c", "grep -aho 'sleep.6[01].[0-9]*' /proc/*/cmdline"]
    async with asyncio.timeout(10):
        # A process that was killed is seen until its parent has been told.
        while f"sleep\x0061.{own}" in (seen := await executed(agent.agent, MAIN, look, within=5)).output:
            continue
    assert f"sleep\x0060.{own}" in seen.output


async def test_a_signal_reaches_a_session(agent: Node) -> None:
    await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    reading, writing = os.pipe()
    streams = Streams(input=reading, output=writing, errors=writing)
    session = await agent.agent.execute(*MAIN, ["sleep", "60"], streams)
    session.send_signal(signal.SIGTERM)
    assert await session.ending == Ending(143, 15)
    os.close(reading)
    os.close(writing)


async def test_a_container_that_ends_takes_its_sessions_along(agent: Node) -> None:
    main = await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    session = asyncio.create_task(executed(agent.agent, MAIN, ["sleep", "60"], within=10))
    await executed(agent.agent, MAIN, ["true"], within=5)
    agent.agent.send_signal(*MAIN, signal.SIGTERM)
    await main
    assert (await session).code == 137


async def test_many_sessions_at_once_are_told_apart(agent: Node) -> None:
    await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    outcomes = await asyncio.gather(
        *(executed(agent.agent, MAIN, ["sh", "-c", f"echo {n}; exit {n}"], within=20) for n in range(40))
    )
    assert [(each.code, each.output) for each in outcomes] == [(n, f"{n}\n") for n in range(40)]


async def test_a_session_that_cannot_be_is_explained(agent: Node) -> None:
    with pytest.raises(StartFailed, match="the container does not run"):
        await executed(agent.agent, MAIN, ["true"], within=5)
    await agent.agent.start(*MAIN, agent.command("sleep", "60"))
    with pytest.raises(StartFailed, match='exec: "no-such": executable file not found'):
        await executed(agent.agent, MAIN, ["no-such"], within=5)
