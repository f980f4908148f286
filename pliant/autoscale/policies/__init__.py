"""The autoscaling policies users can choose, and the published EDL autoscaler they are compared with."""
