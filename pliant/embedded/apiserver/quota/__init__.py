"""LimitRanges and ResourceQuotas: limits of the resources of containers, pods, claims and namespaces."""
