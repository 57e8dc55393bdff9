"""Queries that a run and its qrels do not share: counted, named up to ten, and a guess why."""

import pytest

from ragtrial.scoring.score_runs import RunCounts, document_warning, guessed_reason, mismatch_warnings

TEN = tuple(f"q{number}" for number in range(10))


@pytest.mark.parametrize(
    ("judged", "missing", "missing_names", "unknown", "unknown_names", "expected"),
    [
        (2, 0, (), 0, (), {}),
        (4, 1, ("q4",), 0, (), {
            "queries-not-retrieved":
            "bm25: 1 of 4 judged queries are missing in the run; they score 0 and are counted: q4.",
        }),
        (2_000, 500, TEN, 0, (), {
            "queries-not-retrieved":
            "bm25: 500 of 2,000 judged queries are missing in the run; they score 0 and are counted: "
            f"{', '.join(TEN)}, and 490 more.",
        }),
        (3, 0, (), 2, ("q8", "q9"),
         {"queries-not-judged": "bm25: queries of the run without judgments are left out, 2 in number: q8, q9."}),
        (4, 2, ("a", "b"), 0, (), {"queries-not-retrieved": None}),  # half is not fewer than half
        (4, 3, ("q2", "q3", "q4"), 0, (), {
            "queries-not-retrieved": None,
            "few-queries-match":
            "bm25: FEWER THAN HALF OF THE QUERIES MATCH: 4 are judged, 1 are in the run, 1 in both. "
            "Do the two belong together?",
        }),
        (2, 0, (), 3, ("x", "y", "z"), {"queries-not-judged": None, "few-queries-match": None}),
    ],
)  # fmt: skip
def test_queries_that_the_other_lacks_are_counted_and_named(
    judged: int, missing: int, missing_names: tuple[str, ...], unknown: int, unknown_names: tuple[str, ...],
    expected: dict[str, str | None],
) -> None:  # fmt: skip
    counts = RunCounts(0, 0, 0, 0, 0, judged, judged - missing, missing, missing_names, unknown, unknown_names)
    found = {warning.code: warning.message for warning in mismatch_warnings("bm25", counts, ("q1", "q2"))}
    assert found == {code: message or found[code] for code, message in expected.items()}


def test_a_run_none_of_whose_documents_is_judged_is_loud_and_says_why_where_it_can() -> None:
    known = document_warning("bm25", ["12", "13"], ["D12", "D13", "D99"])
    assert (known.code, known.message) == (
        "no-documents-match",
        "bm25: NOT ONE HIT IS JUDGED: no document of the run is in the qrels of its query, so all is 0. "
        "The ids of the run have 'D' before them: 'D12' for '12'.",
    )
    unknown = document_warning("bm25", ["a", "b"], ["x"])
    assert unknown.message.endswith("so all is 0. The run has x; the qrels have a, b.")


@pytest.mark.parametrize(
    ("judged", "unknown", "reason"),
    [
        (("1", "2"), ("01", "02"), "The ids differ by zeros before the number: '01' in the run, '1' in the qrels."),
        (("q007",), ("q7",), "The ids differ by zeros before the number: 'q7' in the run, 'q007' in the qrels."),
        (("1",), ("1.0",),
         "The ids differ by numbers that were written as decimals, like 7.0 for 7: "
         "'1.0' in the run, '1' in the qrels."),
        (("Q1",), ("q1",), "The ids differ by upper and lower case: 'q1' in the run, 'Q1' in the qrels."),
        (("1", "2"), ("q1", "q2"), "The ids of the run have 'q' before them: 'q1' for '1'."),
        (("test-1", "test-2"), ("1", "2"),
         "The ids of the qrels have 'test-' before them: 'test-1' for '1'."),
        (("1", "2", "3", "4"), ("101", "205", "309"), ""), (("a",), ("b",), ""), ((), ("b",), ""), (("a",), (), ""),
    ],
)  # fmt: skip
def test_the_reason_is_guessed_from_the_names(judged: tuple[str, ...], unknown: tuple[str, ...], reason: str) -> None:
    assert guessed_reason(judged, unknown) == reason
