"""Worklists: which hits to label first."""
