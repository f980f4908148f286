"""Computes the size of every elastic group: admission of pending pods, preemption, and fair sharing."""
