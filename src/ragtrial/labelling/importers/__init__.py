"""Importers of labels of other tools."""
