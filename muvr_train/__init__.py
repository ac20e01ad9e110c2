"""Trains and evaluates video retrieval models on cached frame features."""
