"""AITrainingJob of elasticdeeplearning.ai/v1: Pliant's own general kind."""
