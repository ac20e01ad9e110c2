"""Similarity networks, fusion heads, and the retriever that composes them (no file reading, no Lightning)."""
