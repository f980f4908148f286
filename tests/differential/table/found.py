"""Sequences that the campaign found and shrank; the differences they showed are mended."""

from __future__ import annotations

from tests.differential.steps import Step

SEQUENCES: dict[str, list[Step]] = {}
