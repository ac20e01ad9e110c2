"""Scoring of whole databases in bounded memory."""
