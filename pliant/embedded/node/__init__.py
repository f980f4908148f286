"""What a node does: pods become processes, their fate becomes status."""
