"""One resource kind per file: a raw object becomes a Job, a Job's status becomes the kind's own words."""
