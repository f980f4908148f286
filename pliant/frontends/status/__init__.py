"""Parts of a status that several kinds share: engine state, conditions and results."""
