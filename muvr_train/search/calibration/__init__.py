"""Calibration: training-free steps on features and scores, fitted on training data, beside the raw row."""
