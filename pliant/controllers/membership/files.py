"""Writes the ConfigMaps from which replicas read the membership; one that belongs to another owner is never changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pliant.controllers.owned_objects import create_or_get
from pliant.errors import Conflict, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import ConfigMap
from pliant.kube.resources import CONFIG_MAPS
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.job import Job

MAX_KNOWN_FILES = 10_000


class MembershipFiles:
    """Creates the file of a job once, and then patches it without reading it."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._uids: OrderedDict[tuple[str, str], str] = OrderedDict()  # by UID of the job and name, the oldest first

    async def write(self, job: Job, manifest: Mapping[str, Any]) -> None:
        key, client = (job.owner.uid, manifest["metadata"]["name"]), self._client.for_flow(WriteFlow(*job.key))
        if (uid := self._uids.get(key)) is None:
            stored = await create_or_get(client, CONFIG_MAPS, ConfigMap, job, manifest)
            uid = self._uids[key] = stored.metadata.uid
            while len(self._uids) > MAX_KNOWN_FILES:
                self._uids.popitem(last=False)
            if stored.data == manifest["data"]:
                return
        patch = {"metadata": {"uid": uid}, "data": manifest["data"]}
        try:
            await client.patch(CONFIG_MAPS, job.key.namespace, manifest["metadata"]["name"], patch)
        except (Conflict, NotFound):
            del self._uids[key]  # the file was deleted: the next attempt creates it again
            raise
