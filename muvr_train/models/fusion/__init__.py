"""Fusion heads: how the parts of a query (video, text) become one score."""
