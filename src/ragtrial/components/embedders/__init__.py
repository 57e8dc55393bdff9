"""Texts in, float32 vectors out. One file per kind, named as the kind, registers it."""
