"""The pod network: DNS, service proxy, egress and the network modes."""
