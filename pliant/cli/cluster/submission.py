"""Creates jobs and the objects they need on any cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pliant.cli.cluster.apply import creation_sort_key
from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import UNLIMITED_WAIT_TIMEOUT, wait_deleted
from pliant.cli.input.api_errors import is_input_error, to_invalid_input
from pliant.cli.input.manifest_checks import frontend_of
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import InvalidInput
from pliant.errors import AlreadyExists, ApiError, NotFound, UserError
from pliant.kube.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePolicy:
    """What to do with jobs of the same names."""

    replaces_active: bool = False
    """Delete every job of the name first."""
    replaces_finished: bool = False
    """Delete a job of the name first if it has finished."""
    timeout: timedelta = UNLIMITED_WAIT_TIMEOUT
    """For the deletion."""

    def allows(self, job_object: JobObject) -> bool:
        has_finished = job_object.state is not None and job_object.state.phase.is_final
        return self.replaces_active or (self.replaces_finished and has_finished)


class ManifestSubmitter:
    """Creates or updates the objects of manifests on a running cluster."""

    def __init__(
        self,
        target: ClusterTarget,
        policy: ReplacePolicy,
        on_result: Callable[[str], None] = lambda text: None,
        *,
        is_dry_run: bool = False,
    ) -> None:
        self._target = target
        self._policy = policy
        self._on_result = on_result
        self.is_dry_run = is_dry_run
        self._resources: dict[tuple[str, str], Resource] = {}

    async def submit(self, manifests: list[Manifest]) -> list[JobObject]:
        """Create all objects, jobs last; return the jobs as the API server stored them."""
        jobs = []
        for manifest in sorted(manifests, key=creation_sort_key):
            resource = await self._find_resource(manifest)
            namespace = (manifest.namespace or self._target.default_namespace) if resource.namespaced else None
            frontend = frontend_of(manifest)
            if frontend is None:
                await self._create_or_update(manifest, resource, namespace)
                continue
            job = parse_job_object(frontend, await self._create_or_replace_job(manifest, resource, namespace))
            next_steps = f"submitted (pliant logs {job.key.name} -f, pliant why {job.key.name})"
            result = "accepted by the API server, not created (dry run)" if self.is_dry_run else next_steps
            self._on_result(f"{job.key.name}: {result}")
            jobs.append(job)
        return jobs

    async def _create_or_replace_job(
        self, manifest: Manifest, resource: Resource, namespace: str | None
    ) -> dict[str, Any]:
        client, frontend = self._target.client, frontend_of(manifest)
        try:
            return await self._create(manifest, resource, namespace)
        except AlreadyExists:
            assert frontend is not None, "only jobs are created here"
        old = parse_job_object(frontend, await client.get(resource, namespace, manifest.name))
        if not self._policy.allows(old):
            fix = f"use --replace (in Python replace=True), or run `pliant delete {manifest.name}` first"
            raise UserError(f"job `{manifest.name}` already exists; {fix}")
        await client.delete(resource, namespace, manifest.name, uid=old.uid)
        await wait_deleted(self._target, old, self._policy.timeout)
        return await self._create(manifest, resource, namespace)

    async def _create_or_update(self, manifest: Manifest, resource: Resource, namespace: str | None) -> None:
        result = "created"
        try:
            await self._create(manifest, resource, namespace)
        except AlreadyExists:
            existing = await self._target.client.get(resource, namespace, manifest.name)
            version = existing["metadata"]["resourceVersion"]
            body = {**manifest.raw, "metadata": {**manifest.raw["metadata"], "resourceVersion": version}}
            await self._target.client.replace(resource, namespace, manifest.name, body)
            result = "updated"
        if not self.is_dry_run:
            self._on_result(f"{resource.kind.lower()}/{manifest.name}: {result}")

    async def _create(self, manifest: Manifest, resource: Resource, namespace: str | None) -> dict[str, Any]:
        try:
            return await self._target.client.create(
                resource, namespace, manifest.raw, strict=True, dry_run=self.is_dry_run
            )
        except NotFound:
            raise UserError(f"namespace `{namespace}` not found; create it, or choose another") from None
        except ApiError as error:
            if not is_input_error(error):
                raise
            raise to_invalid_input(manifest, error, {}) from error

    async def _find_resource(self, manifest: Manifest) -> Resource:
        """Look up the resource of a kind by API discovery."""
        kind = (manifest.api_version, manifest.kind)
        if kind not in self._resources:
            group, _, version = manifest.api_version.rpartition("/")
            try:
                path = f"/apis/{group}/{version}" if group else f"/api/{version}"
                served = json.loads(await self._target.client.get_raw(path)).get("resources") or []
            except NotFound:
                served = []
            matches = [
                resource for resource in served if resource["kind"] == manifest.kind and "/" not in resource["name"]
            ]
            if not matches:
                fix = "`pliant crds | kubectl apply -f -` installs the job kinds" if frontend_of(manifest) else ""
                raise InvalidInput([manifest.field_problem(f"the cluster does not serve {manifest.kind}", "kind", fix)])
            match = matches[0]
            self._resources[kind] = Resource(group, version, match["name"], manifest.kind, match["namespaced"])
        return self._resources[kind]
