"""Bytes under names: fingerprints, atomic writes, locks, caches. Nothing here knows what a stage is for."""
