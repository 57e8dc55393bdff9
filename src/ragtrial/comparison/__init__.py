"""Comparisons of settings: differences over the same queries, their certainty, and a next step."""
