"""Rankings that are there already, scored: runs of other tools, and those of reports."""
