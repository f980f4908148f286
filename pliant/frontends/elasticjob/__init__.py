"""ElasticJob of elastic.iml.github.io/v1alpha1: a job whose own master controls its membership."""
