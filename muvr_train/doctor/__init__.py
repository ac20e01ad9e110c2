"""Examination of a data set and its features: everything that is found, on one screen, with an exit code."""
