"""report.json: what is in it, how it is written, found and read again."""
