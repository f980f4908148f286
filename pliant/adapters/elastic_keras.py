"""Keras: a callback that saves the model with its optimizer when a checkpoint is requested, and reports the progress.

callback = ElasticCallback("model.keras")
model = keras.models.load_model(callback.checkpoint) if callback.checkpoint else build_model()
model.fit(data, epochs=10, initial_epoch=int(model.optimizer.iterations) // steps_per_epoch, callbacks=[callback])
"""

from __future__ import annotations

import os
import socket
from typing import Any

import keras  # type: ignore[import-not-found]

try:
    from pliant import elastic
except ImportError:  # a copy beside elastic.py
    import elastic  # type: ignore[import-not-found, no-redef]


class ElasticCallback(keras.callbacks.Callback):
    """Saves the whole model, which is replaced at once or not at all."""

    def __init__(self, path: str, report_every: int = 10) -> None:
        super().__init__()
        self._path, self._report_every = path, report_every
        self._step = 0

    @property
    def checkpoint(self) -> str | None:
        """The model to continue from, if there is one."""
        return self._path if os.path.exists(self._path) else None  # noqa: PTH110

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._step += 1
        if self._step % self._report_every == 0:
            elastic.report(step=int(self.model.optimizer.iterations), loss=(logs or {}).get("loss"))
        if elastic.should_checkpoint():
            stem, suffix = os.path.splitext(self._path)  # noqa: PTH122
            temporary = f"{stem}.{socket.gethostname()}-{os.getpid()}{suffix}"
            self.model.save(temporary)
            os.replace(temporary, self._path)  # noqa: PTH105
            elastic.acknowledge()
