"""PaddleJob of batch.paddlepaddle.org/v1: servers, workers and others, in the words of their operator."""
