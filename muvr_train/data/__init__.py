"""Cached features to training batches."""
