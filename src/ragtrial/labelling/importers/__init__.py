"""Importers of labels: a module for each format, which registers its reader."""
