"""Parts of a status that all kinds share: engine state, conditions and results."""
