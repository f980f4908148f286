"""Hugging Face Transformers: a callback that saves a checkpoint when one is requested, and reports the progress.

Trainer(..., callbacks=[ElasticCallback()]).train(resume_from_checkpoint=get_last_checkpoint(output_dir))
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments  # type: ignore[import-not-found]

try:
    from pliant import elastic
except ImportError:  # a copy beside elastic.py
    import elastic  # type: ignore[import-not-found, no-redef]


class ElasticCallback(TrainerCallback):
    """Lets all ranks save together, because a checkpoint of sharded models is a collective operation."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        if _is_true_on_any_rank(elastic.should_checkpoint(), args.device):
            control.should_save = True
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        elastic.acknowledge()  # does nothing if no checkpoint is requested of this replica

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        if state.is_world_process_zero and "loss" in (logs or {}):
            elastic.report(step=state.global_step, total=state.max_steps, loss=logs["loss"])


def _is_true_on_any_rank(value: bool, device: Any) -> bool:
    import torch.distributed as dist  # type: ignore[import-not-found]
    from torch import tensor

    if not (dist.is_available() and dist.is_initialized()):
        return value
    flag = tensor([int(value)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())
