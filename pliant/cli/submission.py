"""Creates the objects of files on any cluster: what jobs need first, then the jobs."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from pliant.cli.checks import frontend_of, refused
from pliant.cli.jobs import Found, found
from pliant.cli.manifests import Manifest
from pliant.cli.problems import InvalidInput
from pliant.cli.target import Target
from pliant.cli.waiting import wait_no_pods, wait_until
from pliant.errors import AlreadyExists, BadRequest, Invalid, NotFound, UserError
from pliant.kube.resources import CRDS, NAMESPACES, Resource


class Submission:
    """One handing over of objects."""

    def __init__(self, target: Target, args: Namespace) -> None:
        self._target = target
        self._args = args
        self._resources: dict[tuple[str, str], Resource] = {}

    async def create(self, manifests: list[Manifest]) -> list[Found]:
        """Create everything, jobs last; the jobs as the server has them."""
        jobs = []
        for manifest in sorted(manifests, key=_turn):
            resource = await self._resource(manifest)
            namespace = (manifest.namespace or self._target.home) if resource.namespaced else None
            frontend = frontend_of(manifest)
            if frontend is None:
                await self._put(manifest, resource, namespace)
                continue
            one = found(frontend, await self._submit(manifest, resource, namespace))
            sys.stdout.write(
                f"{one.key.name}: submitted (pliant logs {one.key.name} -f, pliant why {one.key.name})\n"
            )
            sys.stdout.flush()
            jobs.append(one)
        return jobs

    async def _submit(self, manifest: Manifest, resource: Resource, namespace: str | None) -> dict[str, Any]:
        client, frontend = self._target.client, frontend_of(manifest)
        try:
            return await self._new(manifest, resource, namespace)
        except AlreadyExists:
            if not self._args.replace or frontend is None:
                cure = f"say --replace, or `pliant delete {manifest.name}` first"
                raise UserError(f"a job `{manifest.name}` is there already; {cure}") from None
        old = found(frontend, await client.get(resource, namespace, manifest.name))
        await client.delete(resource, namespace, manifest.name, uid=old.uid)
        await wait_until(self._target, old, lambda latest: latest is None, self._args.timeout, "gone")
        await wait_no_pods(self._target, old, self._args.timeout)
        return await self._new(manifest, resource, namespace)

    async def _put(self, manifest: Manifest, resource: Resource, namespace: str | None) -> None:
        """Create an object, or bring the one that is there up to date."""
        done = "created"
        try:
            await self._new(manifest, resource, namespace)
        except AlreadyExists:
            present = await self._target.client.get(resource, namespace, manifest.name)
            version = present["metadata"]["resourceVersion"]
            body = {**manifest.raw, "metadata": {**manifest.raw["metadata"], "resourceVersion": version}}
            await self._target.client.replace(resource, namespace, manifest.name, body)
            done = "brought up to date"
        sys.stdout.write(f"{resource.kind.lower()}/{manifest.name}: {done}\n")

    async def _new(self, manifest: Manifest, resource: Resource, namespace: str | None) -> dict[str, Any]:
        try:
            return await self._target.client.create(resource, namespace, manifest.raw, strict=True)
        except (BadRequest, Invalid) as error:
            raise refused(manifest, error, {}) from error
        except NotFound:
            raise UserError(f"no namespace `{namespace}` on this cluster; create it, or name another") from None

    async def _resource(self, manifest: Manifest) -> Resource:
        """Where the cluster serves objects of this kind."""
        asked = (manifest.api_version, manifest.kind)
        if asked not in self._resources:
            group, _, version = manifest.api_version.rpartition("/")
            try:
                path = f"/apis/{group}/{version}" if group else f"/api/{version}"
                served = json.loads(await self._target.client.raw(path)).get("resources") or []
            except NotFound:
                served = []
            fitting = [each for each in served if each["kind"] == manifest.kind and "/" not in each["name"]]
            if not fitting:
                fix = (
                    "`pliant crds | kubectl apply -f -` installs the kinds of jobs"
                    if frontend_of(manifest)
                    else ""
                )
                raise InvalidInput([manifest.problem(f"this cluster does not serve {manifest.kind}", "kind", fix)])
            [first, *_] = fitting
            self._resources[asked] = Resource(group, version, first["name"], manifest.kind, first["namespaced"])
        return self._resources[asked]


def _turn(manifest: Manifest) -> int:
    if manifest.kind in (NAMESPACES.kind, CRDS.kind):
        return 0
    return 2 if frontend_of(manifest) else 1
