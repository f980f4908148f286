"""Running members: membership, rendezvous rounds, heartbeats and throughput."""
