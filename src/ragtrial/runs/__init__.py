"""Qrels and runs of any tool: read, joined and written."""
