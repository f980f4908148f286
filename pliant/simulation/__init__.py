"""A cluster that is only reckoned with: what becomes of jobs under each policy, in seconds and without a pod."""
