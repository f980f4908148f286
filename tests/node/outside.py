"""Where servers of a test stand that pods are to find outside of their cluster."""

from __future__ import annotations

import socket

import pytest


def outside_address() -> str:
    """An address of this machine that is not its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: it only asks for the route
        except OSError:
            pytest.skip("this machine has no network beside its loopback: the way out of pods was NOT TRIED")
        return str(probe.getsockname()[0])
