"""Documents and labels: the only parsers of what users bring."""
