"""The scheduler: node selection, gang scheduling, preemption and GPU allocation."""
