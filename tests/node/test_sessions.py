"""One more command in a container that runs already."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from pliant.embedded.kubelet.probes.handlers import run_container_command
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed, ContainerExit, ExecStreams
from tests.node.conftest import ONLY_PRIVATE, Node

MAIN = ("pod", "main")


async def test_a_session_has_the_variables_and_the_folder_of_its_container(agent: Node) -> None:
    (agent.data / "folder").mkdir(mode=0o777)
    command = agent.command("sleep", "60", working_dir=str(agent.data / "folder"))
    command["env"]["COLOUR"] = "green"
    await agent.agent.start_container(*MAIN, command)
    outcome = await run_container_command(agent.agent, MAIN, ["sh", "-c", "pwd; echo $COLOUR"], timeout=5)
    assert outcome.output.splitlines() == [str(agent.data / "folder"), "green"]


@ONLY_PRIVATE
async def test_a_session_is_in_the_container(agent: Node) -> None:
    await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    script = "hostname; cat /proc/1/comm; cat /proc/[0-9]*/comm"
    outcome = await run_container_command(agent.agent, MAIN, ["sh", "-c", script], timeout=5)
    host, first, *others = outcome.output.splitlines()
    assert host == "worker-0"
    assert first.startswith("python")
    assert "sleep" in others
    assert "sh" in others


async def test_a_session_reads_and_writes_what_it_is_given(agent: Node) -> None:
    await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    pipes = [os.pipe() for _ in range(3)]
    (its_input, ours), (output, its_output), (errors, its_errors) = pipes
    streams = ExecStreams(stdin=its_input, stdout=its_output, stderr=its_errors)
    session = await agent.agent.start_session(
        *MAIN, ["sh", "-c", "read word; echo $word; echo oops >&2; exit 9"], streams
    )
    for each in (its_input, its_output, its_errors):
        os.close(each)
    os.write(ours, b"hello\n")
    assert await session.exit_future == ContainerExit(9)
    assert (os.read(output, 99), os.read(errors, 99)) == (b"hello\n", b"oops\n")
    assert (os.read(output, 99), os.read(errors, 99)) == (b"", b""), "nobody else holds them"
    for each in (ours, output, errors):
        os.close(each)


async def test_a_session_may_have_a_terminal(agent: Node) -> None:
    await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    outer, inner = os.openpty()
    streams = ExecStreams(stdin=inner, stdout=inner, stderr=inner, is_terminal=True)
    session = await agent.agent.start_session(
        *MAIN, ["sh", "-c", "exec 3<>/dev/tty && test -t 3 && echo controlled"], streams
    )
    assert await session.exit_future == ContainerExit(0)
    assert os.read(outer, 99) == b"controlled\r\n"
    os.close(outer)
    os.close(inner)


async def test_a_session_whose_time_is_up_is_killed_with_its_children(agent: Node) -> None:
    # Without namespaces the processes of other tests are seen as well.
    own = os.getpid()
    await agent.agent.start_container(*MAIN, agent.command("sleep", f"60.{own}"))
    outcome = await run_container_command(
        agent.agent, MAIN, ["sh", "-c", f"echo begun; sleep 61.{own}; true"], timeout=1.5
    )
    assert (outcome.exit_code, outcome.output) == (None, "begun\n")
    look = ["sh", "-c", "grep -aho 'sleep.6[01].[0-9]*' /proc/*/cmdline"]
    async with asyncio.timeout(10):
        # A process that was killed is seen until its parent has been told.
        while f"sleep\x0061.{own}" in (seen := await run_container_command(agent.agent, MAIN, look, timeout=5)).output:
            continue
    assert f"sleep\x0060.{own}" in seen.output


async def test_a_signal_reaches_a_session(agent: Node) -> None:
    await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    reading, writing = os.pipe()
    streams = ExecStreams(stdin=reading, stdout=writing, stderr=writing)
    session = await agent.agent.start_session(*MAIN, ["sleep", "60"], streams)
    session.send_signal(signal.SIGTERM)
    assert await session.exit_future == ContainerExit(143, 15)
    os.close(reading)
    os.close(writing)


async def test_a_container_that_ends_takes_its_sessions_along(agent: Node) -> None:
    main = await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    session = asyncio.create_task(run_container_command(agent.agent, MAIN, ["sleep", "61"], timeout=10))
    has_begun = "until grep -qsa '^sleep.61' /proc/[0-9]*/cmdline; do sleep 0.01; done"
    await run_container_command(agent.agent, MAIN, ["sh", "-c", has_begun], timeout=5)
    agent.agent.signal_container(*MAIN, signal.SIGTERM)
    await main
    assert (await session).exit_code == 137


async def test_many_sessions_at_once_are_told_apart(agent: Node) -> None:
    await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    outcomes = await asyncio.gather(
        *(run_container_command(agent.agent, MAIN, ["sh", "-c", f"echo {n}; exit {n}"], timeout=20) for n in range(40))
    )
    assert [(each.exit_code, each.output) for each in outcomes] == [(n, f"{n}\n") for n in range(40)]


async def test_a_session_that_cannot_be_is_explained(agent: Node) -> None:
    with pytest.raises(AgentRequestFailed, match="the container is not running"):
        await run_container_command(agent.agent, MAIN, ["true"], timeout=5)
    await agent.agent.start_container(*MAIN, agent.command("sleep", "60"))
    with pytest.raises(AgentRequestFailed, match='exec: "no-such": executable file not found'):
        await run_container_command(agent.agent, MAIN, ["no-such"], timeout=5)
