"""The master of one ElasticJob: serves its members, and sizes the job by ScalePlans that the operator carries out."""
