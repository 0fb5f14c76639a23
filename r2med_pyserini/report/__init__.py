"""Scores -> what people read."""
