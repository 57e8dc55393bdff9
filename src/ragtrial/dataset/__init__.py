"""Readers of documents and labels in all their formats."""
