"""PaddleJob and TrainingJob of paddlepaddle.org/v1: parameter servers and elastic trainers."""
