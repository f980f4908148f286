"""The master of one ElasticJob: serves its members, and sizes the job by ScalePlans."""
