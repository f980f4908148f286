"""PaddleJob of batch.paddlepaddle.org/v1: parameter servers, workers and heterogeneous workers."""
