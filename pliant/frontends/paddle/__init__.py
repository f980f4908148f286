"""PaddleJob of paddlepaddle.org/v1: parameter servers and trainers that an autoscaler may add to and take from."""
