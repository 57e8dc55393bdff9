"""From rankings and labels to scores: grading, metrics, ranges."""
