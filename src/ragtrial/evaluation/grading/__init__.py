"""Rankings joined with judgments: ids become numbers here, and all later scoring is arithmetic."""

from ragtrial.evaluation.grading.graded_rankings import (
    DocumentLabels,
    GradedRankings,
    Scores,
    grade,
    grade_codes,
    grade_spans,
    graded_hits,
    nothing_retrieved,
)

__all__ = [
    "DocumentLabels",
    "GradedRankings",
    "Scores",
    "grade",
    "grade_codes",
    "grade_spans",
    "graded_hits",
    "nothing_retrieved",
]
