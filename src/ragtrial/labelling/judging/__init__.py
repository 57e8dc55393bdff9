"""Judgments of a model: what is asked, how, at which cost, and what becomes of the replies."""
