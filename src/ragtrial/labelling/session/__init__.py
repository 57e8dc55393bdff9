"""A person at work on a worklist, in a terminal or a browser."""
