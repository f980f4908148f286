"""ElasticJob of elastic.iml.github.io/v1alpha1: a job with a master of its own, which says who its members are."""
