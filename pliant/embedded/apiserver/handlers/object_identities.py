"""Names, UIDs and creation times of new objects."""

from __future__ import annotations

import random
import uuid

from pliant.embedded.apiserver.http import errors
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

_NAME_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class ObjectIdentities:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng

    def assign_name(self, transaction: Transaction, kind: Kind, namespace: str, metadata: Object) -> list[FieldError]:
        """Set the namespace and a generated name; return the error of an object without either name."""
        metadata.pop("namespace", None)
        if kind.namespaced:
            metadata["namespace"] = namespace
        prefix = metadata.get("generateName")
        if not metadata.get("name") and prefix and isinstance(prefix, str):
            name = prefix[:58] + "".join(self._rng.choices(_NAME_SUFFIX_ALPHABET, k=5))
            while transaction.get(ObjectKey(kind.resource_key, namespace, name)) is not None:
                name = prefix[:58] + "".join(self._rng.choices(_NAME_SUFFIX_ALPHABET, k=5))
            metadata["name"] = name
        if not metadata.get("name") and kind.resource_key == "/limitranges":
            metadata["name"] = self._new_uid()
        if metadata.get("name"):
            return []
        metadata["name"] = ""
        return [errors.required_field("metadata.name", "name or generateName is required")]

    def new_metadata(self) -> Object:
        """Return the UID and the creation time of an object that is created now."""
        return {"uid": self._new_uid(), "creationTimestamp": format_timestamp(self._clock.now())}

    def _new_uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
