"""Creates the objects of files on any cluster: what jobs need first, then the jobs."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import wait_for_job, wait_for_pods_deleted
from pliant.cli.input.manifest_checks import frontend_of, to_invalid_input
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import InvalidInput
from pliant.errors import AlreadyExists, BadRequest, Invalid, NotFound, UserError
from pliant.kube.resources import CRDS, NAMESPACES, Resource


class ManifestSubmission:
    """One handing over of objects."""

    def __init__(self, target: ClusterTarget, args: Namespace) -> None:
        self._target = target
        self._args = args
        self._resources: dict[tuple[str, str], Resource] = {}

    async def create(self, manifests: list[Manifest]) -> list[JobObject]:
        """Create everything, jobs last; the jobs as the server has them."""
        jobs = []
        for manifest in sorted(manifests, key=_apply_order):
            resource = await self._find_resource(manifest)
            namespace = (manifest.namespace or self._target.default_namespace) if resource.namespaced else None
            frontend = frontend_of(manifest)
            if frontend is None:
                await self._create_or_update(manifest, resource, namespace)
                continue
            one = parse_job_object(frontend, await self._create_or_replace_job(manifest, resource, namespace))
            sys.stdout.write(f"{one.key.name}: submitted (pliant logs {one.key.name} -f, pliant why {one.key.name})\n")
            sys.stdout.flush()
            jobs.append(one)
        return jobs

    async def _create_or_replace_job(
        self, manifest: Manifest, resource: Resource, namespace: str | None
    ) -> dict[str, Any]:
        client, frontend = self._target.client, frontend_of(manifest)
        try:
            return await self._create(manifest, resource, namespace)
        except AlreadyExists:
            if not self._args.replace or frontend is None:
                cure = f"say --replace, or `pliant delete {manifest.name}` first"
                raise UserError(f"a job `{manifest.name}` is there already; {cure}") from None
        old = parse_job_object(frontend, await client.get(resource, namespace, manifest.name))
        await client.delete(resource, namespace, manifest.name, uid=old.uid)
        await wait_for_job(self._target, old, lambda latest: latest is None, self._args.timeout, "gone")
        await wait_for_pods_deleted(self._target, old, self._args.timeout)
        return await self._create(manifest, resource, namespace)

    async def _create_or_update(self, manifest: Manifest, resource: Resource, namespace: str | None) -> None:
        """Create an object, or bring the one that is there up to date."""
        done = "created"
        try:
            await self._create(manifest, resource, namespace)
        except AlreadyExists:
            present = await self._target.client.get(resource, namespace, manifest.name)
            version = present["metadata"]["resourceVersion"]
            body = {**manifest.raw, "metadata": {**manifest.raw["metadata"], "resourceVersion": version}}
            await self._target.client.replace(resource, namespace, manifest.name, body)
            done = "brought up to date"
        sys.stdout.write(f"{resource.kind.lower()}/{manifest.name}: {done}\n")

    async def _create(self, manifest: Manifest, resource: Resource, namespace: str | None) -> dict[str, Any]:
        try:
            return await self._target.client.create(resource, namespace, manifest.raw, strict=True)
        except (BadRequest, Invalid) as error:
            raise to_invalid_input(manifest, error, {}) from error
        except NotFound:
            raise UserError(f"no namespace `{namespace}` on this cluster; create it, or name another") from None

    async def _find_resource(self, manifest: Manifest) -> Resource:
        """Where the cluster serves objects of this kind."""
        asked = (manifest.api_version, manifest.kind)
        if asked not in self._resources:
            group, _, version = manifest.api_version.rpartition("/")
            try:
                path = f"/apis/{group}/{version}" if group else f"/api/{version}"
                served = json.loads(await self._target.client.get_raw(path)).get("resources") or []
            except NotFound:
                served = []
            fitting = [each for each in served if each["kind"] == manifest.kind and "/" not in each["name"]]
            if not fitting:
                fix = "`pliant crds | kubectl apply -f -` installs the kinds of jobs" if frontend_of(manifest) else ""
                raise InvalidInput(
                    [manifest.field_problem(f"this cluster does not serve {manifest.kind}", "kind", fix)]
                )
            [first, *_] = fitting
            self._resources[asked] = Resource(group, version, first["name"], manifest.kind, first["namespaced"])
        return self._resources[asked]


def _apply_order(manifest: Manifest) -> int:
    if manifest.kind in (NAMESPACES.kind, CRDS.kind):
        return 0
    return 2 if frontend_of(manifest) else 1
