"""Differences query by query, and by kind of query."""
