"""Pixels to cached features: decoding, encoders, extraction, the feature store and its importers."""
