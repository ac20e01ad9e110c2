"""One-to-many losses on (scores, relevance, extras); they never see the model."""
