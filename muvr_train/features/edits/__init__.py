"""Edits that copies of videos on the web carry, their drawing from a seed, and edited views."""
