"""Retrieval metrics from scores and relevance: pure functions first, averages second."""
