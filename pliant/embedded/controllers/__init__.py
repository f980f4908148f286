"""Controllers of the embedded cluster, such as garbage collection, disruption budgets and node lifecycle."""
