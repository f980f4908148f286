"""What a command finds when it runs in a pod, and what is told of its end."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed, ContainerExit
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.errors import UnsupportedEnvironment
from tests.node.conftest import ONLY_PRIVATE, PYTHON, Node, listening, ordinary


async def test_an_exit_code_is_told(agent: Node) -> None:
    ending = await agent.agent.start_container("pod", "a", agent.command("sh", "-c", "exit 7"))
    assert await ending == ContainerExit(7, 0)


async def test_a_command_killed_by_a_signal_is_told_as_a_shell_would(agent: Node) -> None:
    ending = await agent.agent.start_container("pod", "a", agent.command("sh", "-c", "kill -9 $$"))
    assert await ending == ContainerExit(137, 9)


async def test_both_outputs_go_to_the_log_in_order(agent: Node) -> None:
    assert await agent.sh("echo one; echo two >&2; echo three") == "one\ntwo\nthree"


async def test_a_program_that_does_not_exist_is_named(agent: Node) -> None:
    with pytest.raises(AgentRequestFailed, match=r'exec: "no-such-program": executable file not found in \$PATH'):
        await agent.agent.start_container("pod", "a", agent.command("no-such-program"))
    with pytest.raises(AgentRequestFailed, match='exec: "/no/such": no such file or directory'):
        await agent.agent.start_container("pod", "a", agent.command("/no/such"))


async def test_a_working_folder_that_does_not_exist_is_named(agent: Node) -> None:
    with pytest.raises(AgentRequestFailed, match="workingDir '/no/such': No such file or directory"):
        await agent.agent.start_container("pod", "a", agent.command("true", working_dir="/no/such"))


async def test_what_no_program_can_be_given_is_told(agent: Node) -> None:
    with pytest.raises(AgentRequestFailed, match="argument list too long"):
        await agent.agent.start_container("pod", "a", agent.command("true", "x" * (1 << 18)))
    with pytest.raises(AgentRequestFailed, match="null"):
        await agent.agent.start_container("pod", "b", agent.command("true", "\0"))
    assert await agent.sh("echo still here") == "still here"


async def test_a_signal_reaches_the_command(agent: Node) -> None:
    script = "trap 'echo bye; exit 3' TERM; echo up > $0; sleep 60 & wait"
    gate = _fifo(agent.data / "gate")
    ending = await agent.agent.start_container("pod", "a", agent.command("sh", "-c", script, gate))
    await agent.sh(f"cat {gate}")
    agent.agent.signal_container("pod", "a", signal.SIGTERM)
    assert await ending == ContainerExit(3)
    agent.agent.signal_container("pod", "a", signal.SIGTERM)


async def test_a_command_without_a_handler_ends_on_sigterm(agent: Node) -> None:
    ending = await agent.agent.start_container("pod", "a", agent.command("sleep", "60"))
    agent.agent.signal_container("pod", "a", signal.SIGTERM)
    assert await ending == ContainerExit(143, 15)


async def test_removing_a_pod_kills_what_ignores_every_signal(agent: Node) -> None:
    ending = await agent.agent.start_container("pod", "a", agent.command("sh", "-c", "trap '' TERM INT HUP; sleep 60"))
    await agent.agent.remove_pod("pod")
    assert await ending == ContainerExit(137, 9)
    await agent.agent.remove_pod("pod")
    with pytest.raises(AgentRequestFailed, match="being removed"):
        await agent.agent.start_container("pod", "b", agent.command("true"))


async def test_what_a_command_leaves_behind_ends_with_it(agent: Node) -> None:
    kept = _fifo(agent.data / "kept")
    daemon = f"(setsid sh -c 'exec 3<>{kept}; sleep 60' &) ; exec sleep 0"
    ending = await agent.agent.start_container("pod", "a", agent.command("sh", "-c", daemon))
    assert await ending == ContainerExit(0)
    assert _holders(kept) == 0


async def test_a_command_starts_clean(agent: Node) -> None:
    status = dict(line.split(":", 1) for line in (await agent.sh("exec cat /proc/self/status")).splitlines())
    assert status["NoNewPrivs"].strip() == "1"
    assert {status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")} == {"0" * 16}
    assert status["CapEff"].strip() == "0" * 16
    assert await agent.sh("ls /proc/self/fd") == "0\n1\n2\n3"
    assert await agent.sh("cat") == ""


@ONLY_PRIVATE
async def test_only_processes_of_the_container_are_seen(agent: Node) -> None:
    await agent.agent.start_container("pod", "other", agent.command("sleep", "60"))
    assert await agent.sh("echo $PPID") == "1"
    assert await agent.sh("ls -d /proc/[0-9]* | wc -l") in {"3", "4", "5"}
    assert "sleep" not in await agent.sh("cat /proc/[0-9]*/comm")


@ONLY_PRIVATE
async def test_pods_have_their_own_address_host_name_and_ports(agent: Node) -> None:
    address = await agent.agent.create_pod("second", "worker-1")
    assert await agent.sh("hostname") == "worker-0"
    assert await agent.sh("hostname", pod="second") == "worker-1"
    fetch = f"import socket; print(socket.create_connection(('{address}', 80), 5).recv(9).decode())"
    async with listening(agent, "pod", 80, "zero"), listening(agent, "second", 80, "one"):
        assert await agent.sh(f'{PYTHON} -c "{fetch}"') == "one"
        assert await agent.sh(f"""{PYTHON} -c "{fetch.replace(address, "127.0.0.1")}" """) == "zero"


@ONLY_PRIVATE
async def test_pods_reach_the_parent_at_the_bridge(agent: Node) -> None:
    assert agent.agent.api_listener is not None
    talk = (
        f"import socket; print(socket.create_connection(('{agent.agent.gateway_address}', 6443), 5).recv(9).decode())"
    )
    heard = asyncio.create_task(agent.sh(f'{PYTHON} -c "{talk}"'))
    connection, _ = await asyncio.get_running_loop().sock_accept(agent.agent.api_listener)
    with connection:
        connection.send(b"welcome")
    assert await heard == "welcome"


@ONLY_PRIVATE
async def test_the_outside_is_unreachable_at_once(agent: Node) -> None:
    attempt = "import socket, sys; sys.exit(socket.socket().connect_ex(('192.0.2.1', 80)) != 101)"
    async with asyncio.timeout(5):
        await agent.sh(f'{PYTHON} -c "{attempt}"')


async def test_a_machine_that_forbids_namespaces_is_explained(data: Path) -> None:
    usual = ordinary(data)
    wrapper = data / "python"
    wrapper.write_text(
        "#!/bin/sh\nexec unshare --user --map-root-user sh -c "
        f"""'echo 0 > /proc/sys/user/max_net_namespaces; exec {usual.interpreter} "$@"' sh "$@"\n"""
    )
    wrapper.chmod(0o755)
    with pytest.raises(UnsupportedEnvironment, match=r"sysctl -w user\.max_net_namespaces=15000"):
        async with NodeAgentClient.start(type(usual)(data_dir=data, interpreter=str(wrapper), uid_gid=usual.uid_gid)):
            pytest.fail("it started all the same")


def _fifo(path: Path) -> str:
    os.mkfifo(path)
    path.chmod(0o666)
    return str(path)


def _holders(path: str) -> int:
    """How many processes still have a pipe open for reading."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return 0
    return 1
