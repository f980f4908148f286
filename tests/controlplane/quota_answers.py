"""Sends the cases of quotas to a server, and records what kube-apiserver answers.

KUBECONFIG=… python -m tests.controlplane.quota_answers
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from pliant.kube.client_config import create_transport
from pliant.kube.transport.base import Request, Transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.quota_cases import CASES, Case, Step, limit_range

RECORD = Path(__file__).with_suffix(".json")
PATIENCE_SECONDS = 30.0
LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"


def recorded_answers(case: Case) -> dict[str, Any]:
    """Return what kube-apiserver has answered to a case."""
    answers: dict[str, Any] = json.loads(RECORD.read_text())[case.title]
    return answers


async def answer_case(transport: Transport, case: Case, namespace: str) -> dict[str, Any]:
    """Run a case in a new namespace; return the answers to its steps, and the usage of its quotas."""
    await _create(transport, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = f"/api/v1/namespaces/{namespace}"
    await _wait_for(transport, f"{path}/serviceaccounts/default", lambda body: True)
    if case.limits:
        await _create(transport, f"{path}/limitranges", limit_range(*case.limits))
    for quota in case.quotas:
        await _create(transport, f"{path}/resourcequotas", quota)
    names = [quota["metadata"]["name"] for quota in case.quotas]
    for name in names:
        await _wait_for(transport, f"{path}/resourcequotas/{name}", lambda body: "used" in body.get("status", {}))
    answers = [await _answer(transport, step, namespace) for step in case.steps]
    stored = [await _send(transport, "GET", f"{path}/resourcequotas/{name}") for name in names]
    return {"answers": answers, "used": {body["metadata"]["name"]: body["status"]["used"] for _, body in stored}}


async def _answer(transport: Transport, step: Step, namespace: str) -> Any:
    """Return the status and message of a refusal, or the status and what LimitRanger has set."""
    group = step.body.get("apiVersion", "v1").rpartition("/")[0]
    root = "/api/v1" if not group else f"/apis/{group}/v1"
    path = f"{root}/namespaces/{namespace}/{step.path}"
    status, body = await _send(transport, step.method, path, step.body, step.query, step.media)
    if status >= 400:
        return f"{status} {body['reason']}: {body['message']}"
    note = (body["metadata"].get("annotations") or {}).get(LIMIT_RANGER_ANNOTATION)
    return [str(status), note, body["spec"]["containers"][0]["resources"]] if note else str(status)


async def _create(transport: Transport, path: str, body: dict[str, Any]) -> None:
    status, answer = await _send(transport, "POST", path, body)
    assert status == 201, answer


async def _wait_for(transport: Transport, path: str, condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            status, body = await _send(transport, "GET", path)
            if status == 200 and condition(body):
                return
            await asyncio.sleep(0.02)


async def _send(
    transport: Transport,
    method: str,
    path: str,
    body: Any = None,
    query: dict[str, str] | None = None,
    media: str = "application/json",
) -> tuple[int, Any]:
    content = b"" if body is None else json.dumps(body).encode()
    reply = await transport.send(Request(method=method, path=path, query=query or {}, body=content, content_type=media))
    return reply.status, json.loads(reply.body)


async def _record() -> None:
    transport = create_transport(Path(os.environ["KUBECONFIG"]), None, SystemClock().now)
    try:
        answers = {
            case.title: await answer_case(transport, case, f"quotas-{os.getpid()}-{number}")
            for number, case in enumerate(CASES)
        }
    finally:
        await transport.aclose()
    RECORD.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(_record())
