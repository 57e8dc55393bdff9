"""Scoring of existing rankings: runs of other tools, and stored reports."""
