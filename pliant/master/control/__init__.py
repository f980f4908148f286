"""The control loop of the master: reads the ElasticJob and its pods, creates ScalePlans."""
