"""Lightning: a callback that saves a checkpoint when one is requested of any rank, and reports the progress.

callback = ElasticCallback("state.ckpt")
Trainer(callbacks=[callback]).fit(model, ckpt_path=callback.checkpoint)
"""

from __future__ import annotations

import os
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer  # type: ignore[import-not-found]

try:
    from pliant import elastic
except ImportError:  # a copy beside elastic.py
    import elastic  # type: ignore[import-not-found, no-redef]


class ElasticCallback(Callback):
    """Saves all ranks together, because a checkpoint of Lightning is a collective operation."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def checkpoint(self) -> str | None:
        """The checkpoint to continue from, if there is one."""
        return self._path if os.path.exists(self._path) else None  # noqa: PTH110

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_global_zero and trainer.global_step % trainer.log_every_n_steps == 0:
            loss = outputs["loss"] if isinstance(outputs, dict) else outputs
            total = trainer.max_steps if trainer.max_steps > 0 else None
            elastic.report(step=trainer.global_step, total=total, loss=loss)
        if trainer.strategy.reduce_boolean_decision(elastic.should_checkpoint(), all=False):
            trainer.save_checkpoint(self._path)
            elastic.acknowledge()
