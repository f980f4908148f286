"""The pod network: sandboxes on a bridge, netlink, nftables, and the launcher of pasta."""
