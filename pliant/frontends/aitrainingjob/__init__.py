"""AITrainingJob of elasticdeeplearning.ai/v1: the general-purpose kind of Pliant."""
