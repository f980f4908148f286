"""Annotations on an embedded cluster that say where containers find their programs and files."""

from __future__ import annotations

from typing import Final

PATH_ANNOTATION: Final = "pliant/path"
"""The PATH of containers, unless they set their own."""
WORKSPACE_ANNOTATION: Final = "pliant/workspace"
"""The working directory of containers without a workingDir: on a node that of all pods, on a pod its own.

Only the owner of the cluster may set it on other objects than nodes; controllers may copy it to what they own.
"""
