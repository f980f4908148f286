"""Parses jobs, with the last accepted spec of a job as the fallback for an edit that is rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pliant.controllers.apply import ActionApplier
from pliant.errors import InvalidSpec, NotFound
from pliant.frontends.accepted_spec import (
    MAX_STORED_CHARS,
    SPEC_DATA_KEY,
    ParsedJob,
    accept_spec,
    is_data_of,
    move_to_config_map,
    parse_accepted_spec,
)
from pliant.frontends.frontend import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.model.accepted_spec import AcceptedSpec
from pliant.model.job import Job, JobKey
from pliant.model.state import EngineState
from pliant.plugins.isolation import call_plugin, plugin_of_kind


class AcceptedSpecs:
    def __init__(self, frontend: Frontend, client: KubeClient, applier: ActionApplier) -> None:
        self._frontend = frontend
        self._plugin = plugin_of_kind(frontend)
        self._client = client
        self._applier = applier
        self._loaded: dict[JobKey, AcceptedSpec] = {}
        """Specs that were read from ConfigMaps."""

    async def parse(self, key: JobKey, raw: Mapping[str, Any]) -> ParsedJob:
        """Parse a job; raise InvalidSpec if it is invalid and no earlier spec was accepted."""
        state = self._frontend.load_state(raw)
        try:
            job = await call_plugin(self._plugin, lambda: self._frontend.parse(raw, state))
            return ParsedJob(job, state)
        except InvalidSpec as error:
            return await self.fall_back(key, raw, state, error)

    async def fall_back(
        self, key: JobKey, raw: Mapping[str, Any], state: EngineState | None, rejection: InvalidSpec
    ) -> ParsedJob:
        """Return the job of the last accepted spec; raise the rejection if there is none other than the current one."""
        accepted = state.accepted_spec if state is not None else None
        if accepted is None or accepted.is_of(raw["metadata"]):
            raise rejection
        loaded = await self._load(key, accepted)
        return await call_plugin(
            self._plugin, lambda: parse_accepted_spec(self._frontend, raw, state, loaded, rejection)
        )

    async def accept(self, parsed: ParsedJob, raw: Mapping[str, Any]) -> Job:
        """Return the job with the spec to fall back to if a later edit is rejected."""
        if parsed.rejection is not None and parsed.state is not None:
            return replace(parsed.job, accepted_spec=parsed.state.accepted_spec)
        accepted = accept_spec(raw, parsed.state)
        if len(accepted.data) > MAX_STORED_CHARS:
            accepted, creation = move_to_config_map(accepted, parsed.job)
            if (await self._applier.apply(parsed.job, (creation,))).create_errors:
                # The API server refused it: keep the spec before, and try again at the next reconcile.
                return replace(parsed.job, accepted_spec=parsed.state.accepted_spec if parsed.state else None)
        return replace(parsed.job, accepted_spec=accepted)

    def forget(self, key: JobKey) -> None:
        self._loaded.pop(key, None)

    async def _load(self, key: JobKey, accepted: AcceptedSpec) -> AcceptedSpec:
        """Return an accepted spec with its data; only a rejected edit of a job with a long spec requires a read."""
        if not accepted.config_map:
            return accepted
        known = self._loaded.get(key)
        if known is not None and known.config_map == accepted.config_map:
            return known
        try:
            config_map = await self._client.get(CONFIG_MAPS, key.namespace, accepted.config_map)
        except NotFound:
            return accepted
        data = str((config_map.get("data") or {}).get(SPEC_DATA_KEY, ""))
        if not is_data_of(accepted, data):
            return accepted  # another client wrote it
        self._loaded[key] = loaded = accepted.with_data(data)
        return loaded
