"""Stored rankings scored again, by other labels or metrics: a report in, a report out, nothing retrieved."""
