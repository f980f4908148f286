"""Dynamic data sharding: datasets, their shards and the leases on them."""
