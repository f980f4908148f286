"""DLRover's own releases: one Python environment for each, installed once and readable by everybody."""

from __future__ import annotations

from tests.real_frameworks.environments import Environment

WORKING_SET = ("kubernetes==36.0.3", "grpcio==1.85.1", "protobuf==7.36.2", "tornado==6.6.1")
"""What the releases leave out or leave open; the master of either breaks with kubernetes 37."""
PROOF = "import dlrover, google.protobuf, grpc, kubernetes, telnetlib, tornado, torch.distributed"
"""To import its own modules would leave files in /tmp that nobody else may write to."""


def _release(version: str) -> Environment:
    return Environment(
        f"dlrover-{version}",
        (f"dlrover[k8s]=={version}", *WORKING_SET),
        debian=("python3-torch",),
        proof=PROOF,
        programs=("dlrover-run",),
    )


RELEASES = {version: _release(version) for version in ("0.6.1", "0.5.1")}
"""The newest, whose master leaves manual ScalePlans alone, and the last whose master acts on them."""
