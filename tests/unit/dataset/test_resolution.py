"""Labels are looked up in the documents: every judgment has its document and places, or all faults are reported."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from corpora import library_of
from expectations import message_of
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import Match, Resolution, forbidden_warnings, resolve
from ragtrial.dataset.texts import text_hash
from ragtrial.errors import LabelsError
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning, Span

TEXTS = {
    "hub/reset.md": "Hold the reset button for twelve seconds.\nThe ring blinks red.",
    "hub/lights.md": "Steady red: no power.\nThe ring blinks red.\nThe ring blinks red.",
    "faq.md": "Returns take five days.",
}
FAQ, LIGHTS, RESET = "faq.md", "hub/lights.md", "hub/reset.md"
RING = "The ring blinks red."  # at 22 to 42 and at 43 to 63 of LIGHTS
OLD = "0123456789abcdef"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return library_of(tmp_path, TEXTS)


def labels(*judgments: Judgment, name: str = "q1") -> PromptQueries:
    return PromptQueries((Query(name, "a question", judgments),))


def faults_of(wanted: PromptQueries, library: Library, match: Match = "id") -> list[str]:
    lines = message_of(LabelsError, resolve, wanted, library, match, "prompt_queries.json").splitlines()
    assert all(line.startswith("prompt_queries.json: ") for line in lines)
    return [line.removeprefix("prompt_queries.json: ") for line in lines]


def grades(first: int, second: int) -> str:
    return (
        f"query 'q1' gives 'faq.md' the grades {first} and {second}; one document (or one passage of it) has one grade."
    )


UNKNOWN = "which is not in the corpus (3 documents)."
CHARACTERS = "of 'faq.md', which has 23 characters; offsets count the characters of its normalised text from 0."
CHANGED = "of 'faq.md', which was changed since this label was made; add the quote, or make the label again."

REFUSED: dict[str, tuple[list[Judgment], list[str]]] = {
    "a quote that is not in its document": (
        [Judgment(LIGHTS, 1, "Steady red: no current"), Judgment(FAQ, 1, "unheard-of words")],
        [
            "query 'q1' quotes 'Steady red: no current', which is not in 'hub/lights.md'. "
            "The nearest is in 'hub/lights.md': 'Steady red: no'.",
            "query 'q1' quotes 'unheard-of words', which is not in 'faq.md'.",
        ],
    ),
    "a quote that is in another document": (
        [Judgment(FAQ, 1, "no power")],
        ["query 'q1' quotes 'no power', which is not in 'faq.md'. It is in 'hub/lights.md'."],
    ),
    "a quote that is gone from an edited text": (
        [Judgment(FAQ, 1, "Returns take six days.", (), OLD)],
        [
            "query 'q1' quotes 'Returns take six days.', which is not in 'faq.md', which was changed since this label "
            "was made. The nearest is in 'faq.md': 'Returns take five days.'."
        ],
    ),
    "unknown documents": (
        [Judgment("hub/rest.md"), Judgment(FAQ), Judgment("HUB/LIGHTS.MD"), Judgment("91")],
        [f"query 'q1' judges 'hub/rest.md', {UNKNOWN} Did you mean 'hub/reset.md'?",
         f"query 'q1' judges 'HUB/LIGHTS.MD', {UNKNOWN} Did you mean 'hub/lights.md'?",
         f"query 'q1' judges '91', {UNKNOWN}"],
    ),
    "white space in an id": (  # cells of spreadsheets end in spaces
        [Judgment("hub/reset.md "), Judgment("hub/  reset.md"), Judgment(FAQ)],
        [f"query 'q1' judges 'hub/reset.md ', {UNKNOWN} Did you mean 'hub/reset.md'?",
         f"query 'q1' judges 'hub/  reset.md', {UNKNOWN} Did you mean 'hub/reset.md'?"],
    ),
    "passages instead of ids": (
        [Judgment("Hold the reset button for twelve seconds. The ring blinks red."),
         Judgment("Steady red: no power. The ring blinks red. The ring blinks red.")],
        [
            "none of the 2 judged documents is in the corpus (3 documents). Labels have ids like "
            "'Hold the reset button for twelve seco...', 'Steady red: no power. The ring blinks...'; the corpus has "
            "ids like 'faq.md', 'hub/lights.md'. The labels hold passages: did you mean `match: content`?"
        ],
    ),
    "two grades of a document": ([Judgment(FAQ, 1), Judgment(FAQ, 3), Judgment(RESET, 0)], [grades(1, 3)]),
    "a grade of a document and one of its passage": ([Judgment(FAQ, 3, "Returns take five days."), Judgment(FAQ, 0)],
                                                     [grades(0, 3)]),
    "a grade of a quote and one of its span": ([Judgment(FAQ, 1, "five days"), Judgment(FAQ, 2, None, (Span(13, 22),))],
                                               [grades(1, 2)]),
    "offsets outside the document": (
        [Judgment(FAQ, 1, None, (Span(20, 24),)), Judgment(FAQ, 1, None, (Span(3000, 4000),))],
        [f"query 'q1' judges characters 20 to 24 {CHARACTERS}",
         f"query 'q1' judges characters 3,000 to 4,000 {CHARACTERS}"],
    ),
    "offsets into an edited text": (
        [Judgment(FAQ, 1, None, (Span(0, 7),), OLD), Judgment(FAQ, 1, None, (Span(13, 22),), OLD),
         Judgment(RESET, 1, None, (Span(0, 4),), text_hash(TEXTS[RESET]))],
        [f"query 'q1' judges characters 0 to 7 {CHANGED}", f"query 'q1' judges characters 13 to 22 {CHANGED}"],
    ),
    "every kind at once": (
        [Judgment(FAQ, 1), Judgment(FAQ, 2), Judgment("gone.md"), Judgment(RESET, 1, "absent")],
        [f"query 'q1' judges 'gone.md', {UNKNOWN}", "query 'q1' quotes 'absent', which is not in 'hub/reset.md'.",
         grades(1, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_labels_by_id_that_do_not_fit_are_refused(library: Library, case: str) -> None:
    judgments, faults = REFUSED[case]
    assert faults_of(labels(*judgments), library) == faults


LONG = "quite absent " * 40
ID_ALONE = "out, or write `match: id`, the document's id in doc and the passage in quote."
REFUSED_BY_CONTENT: dict[str, tuple[list[Judgment], list[str]]] = {
    "passages that are nowhere": (
        [Judgment("Hold the reset button for ten seconds."), Judgment("Returns take"), Judgment("nothing of the kind")],
        [
            "the passage 'Hold the reset button for ten seconds.' of query 'q1' is in no document (3 documents). "
            "The nearest is in 'hub/reset.md': 'Hold the reset button for twelve seconds.'.",
            "the passage 'nothing of the kind' of query 'q1' is in no document (3 documents).",
        ],
    ),
    "a long passage": ([Judgment(LONG)],
                       [f"the passage {LONG[:157] + '...'!r} of query 'q1' is in no document (3 documents)."]),
    "two grades of a passage, however it is spaced": ([Judgment("Returns take", 1), Judgment("Returns  take", 2)],
                                                      [grades(1, 2)]),
    "offsets": (
        [Judgment("Returns take", 1, None, (Span(0, 12),))],
        [
            "the passage 'Returns take' of query 'q1' has start and end, which belongs to `match: id`; leave start and "
            f"end {ID_ALONE}"
        ],
    ),
    "a hash": (
        [Judgment("Returns take", 1, None, (), OLD)],
        [
            "the passage 'Returns take' of query 'q1' has text_hash, which belongs to `match: id`; leave text_hash "
            f"{ID_ALONE}"
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_BY_CONTENT)
def test_labels_by_content_that_do_not_fit_are_refused(library: Library, case: str) -> None:
    judgments, faults = REFUSED_BY_CONTENT[case]
    assert faults_of(labels(*judgments), library, "content") == faults


def test_faults_are_counted_and_questions_without_documents_too(library: Library) -> None:
    faults = faults_of(labels(Judgment(FAQ), *(Judgment(f"faq{number}.md") for number in range(100))), library)
    assert len(faults) == 21
    assert faults[0].endswith("Did you mean 'faq.md'?")
    assert faults[19:] == [f"query 'q1' judges 'faq19.md', {UNKNOWN}", "and 80 more like these."]
    quotes = labels(*(Judgment(FAQ, 1, f"Returns take {number} days.") for number in range(7)))
    near = [" The nearest is in 'faq.md': 'Returns take" in fault for fault in faults_of(quotes, library)]
    assert near == [True, True, True, True, True, False, False]
    wanted = PromptQueries(tuple(Query(str(n), "x", (Judgment(f"doc-{n}"),)) for n in range(1200)))
    assert faults_of(wanted, library) == [
        "none of the 1,200 judged documents is in the corpus (3 documents). Labels have ids like 'doc-0', 'doc-1'; "
        "the corpus has ids like 'faq.md', 'hub/lights.md'. "
        "Are these the labels of another data set, or is `dataset.corpus` another folder?"
    ]
    # In one line; questions with the tag unanswerable are not among them, a threshold of 2 is.
    queries = [*(Query(f"u{number}", "x") for number in range(30)), Query("known", "x", (Judgment(FAQ),))]
    queries += [Query(f"none{number}", "x", (), ("unanswerable",)) for number in range(7)]
    message = (
        "30 of 38 questions have no relevant document yet (searched, not scored): label one, or add the tag "
        "`unanswerable` (in a table: `no` in a column `answerable`)."
    )
    assert resolve(PromptQueries(tuple(queries)), library, "id").warnings == (ReportWarning("no-relevant", message),)
    for grade, threshold, codes in ((0, 1, ["no-relevant"]), (1, 1, []), (1, 2, ["no-relevant"])):
        resolved = resolve(labels(Judgment(FAQ, grade)), library, "id", threshold=threshold)
        assert [warning.code for warning in resolved.warnings] == codes


class Resolved(NamedTuple):
    """A judgment, the places that it gets, how it is found, and the warnings."""

    judgment: Judgment
    spans: list[tuple[int, int]]
    resolution: Resolution | None
    warnings: Mapping[str, str] = MappingProxyType({})


def moved(span: str, to: str) -> str:
    return f"is not at characters {span} of 'hub/lights.md', where its label says; it was found at characters {to}, and"


IN_LIGHTS = Resolution("q1", (LIGHTS,), RING, "exact", 1)
STEADY = Resolution("q1", (LIGHTS,), "steady red", "case", 1, moved=True)
DAYS = Resolution("q1", (FAQ,), "five days", "exact", 1, changed=True)
RESOLVED = {
    "a document": Resolved(Judgment(FAQ, 2), [], None),
    "a quote": Resolved(
        Judgment(RESET, 3, " ring  blinks\tred "), [(46, 61)],
        Resolution("q1", (RESET,), " ring  blinks\tred ", "spacing", 1),
    ),
    "a quote in several places": Resolved(
        Judgment(LIGHTS, 1, RING), [(22, 42), (43, 63)], replace(IN_LIGHTS, places=2),
        {"quote-twice": "the quote 'The ring blinks red.' of query 'q1' occurs 2 times in 'hub/lights.md'; each place"},
    ),
    "offsets alone": Resolved(
        Judgment(FAQ, 2, None, (Span(0, 23),)), [(0, 23)], Resolution("q1", (FAQ,), None, "offsets", 1)
    ),
    "one of several places": Resolved(
        Judgment(LIGHTS, 1, RING, (Span(43, 63),), text_hash(TEXTS[LIGHTS])), [(43, 63)], IN_LIGHTS
    ),
    "white space at its ends": Resolved(
        Judgment(LIGHTS, 1, f" {RING}\n", (Span(42, 63),)), [(42, 63)], replace(IN_LIGHTS, quote=f" {RING}\n")
    ),
    "other case": Resolved(
        Judgment(LIGHTS, 1, "THE RING blinks\tred.", (Span(43, 63),)), [(43, 63)],
        replace(IN_LIGHTS, quote="THE RING blinks\tred.", how="case"),
    ),
    "moved from its place": Resolved(
        Judgment(LIGHTS, 1, "steady red", (Span(1, 21),)), [(0, 10)], STEADY,
        {"label-moved": moved("1 to 21", "0 to 10")},
    ),
    "moved to several places": Resolved(
        Judgment(LIGHTS, 1, "red", (Span(0, 3),)), [(7, 10), (38, 41), (59, 62)],
        Resolution("q1", (LIGHTS,), "red", "exact", 3, moved=True),
        {"label-moved": moved("0 to 3", "7 to 10 and 38 to 41 and 59 to 62"), "quote-twice": "occurs 3 times"},
    ),
    "a quote in an edited text": Resolved(
        Judgment(FAQ, 1, "five days", (), OLD), [(13, 22)], DAYS,
        {"text-changed": "'faq.md' was changed since the label of query 'q1' was made; its quote is still there."},
    ),
    "a document that was edited": Resolved(
        Judgment(FAQ, 1, None, (), OLD), [], None,
        {"text-changed": "'faq.md' was changed since the label of query 'q1' was made; it still counts."},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RESOLVED)
def test_a_judgment_gets_its_places_and_what_was_noticed(library: Library, case: str) -> None:
    judgment, spans, resolution, warnings = RESOLVED[case]
    wanted = labels(judgment)
    resolved = resolve(wanted, library, "id")
    places = tuple(Span(*span) for span in spans)
    assert resolved.labels.queries[0].relevant_docs == (replace(judgment, spans=places),)
    assert wanted == labels(judgment), "labels are not changed"
    assert resolved.resolutions == (() if resolution is None else (resolution,))
    assert [warning.code for warning in resolved.warnings] == list(warnings)
    assert all(part in warning.message for part, warning in zip(warnings.values(), resolved.warnings, strict=True))
    again = resolve(resolved.labels, library, "id")
    assert again.labels == resolved.labels


def test_a_passage_in_several_documents_is_one_group_of_a_judgment_for_each(library: Library) -> None:
    passage, group = "The ring\nblinks red.", "hub/reset.md 42-62"
    wanted = labels(Judgment(passage, 2), Judgment("RETURNS take", 1))
    resolved = resolve(wanted, library, "content")
    assert resolved.labels.queries[0].relevant_docs == (
        Judgment(RESET, 2, passage, (Span(42, 62),), None, group),
        Judgment(LIGHTS, 2, passage, (Span(22, 42), Span(43, 63)), None, group),
        Judgment(FAQ, 1, "RETURNS take", (Span(0, 12),)),
    )
    assert resolved.labels.have_alternatives
    for judgment, ordered, expected in (
        (Judgment(passage, group="mine"), False, "mine"), (Judgment(passage, -1), False, None),
        (Judgment(passage), True, None),
    ):  # fmt: skip
        given = PromptQueries((Query("q1", "?", (judgment,), ordered=ordered),))
        (query,) = resolve(given, library, "content").labels.queries
        assert {one.group for one in query.relevant_docs} == {expected}
    message = (
        "the passage 'The ring blinks red.' of query 'q1' is in 3 places of 2 documents; any one of them is the answer."
    )
    assert resolved.warnings == (ReportWarning("passage-twice", message),)
    assert resolved.resolutions == (
        Resolution("q1", (RESET, LIGHTS), passage, "spacing", 3),
        Resolution("q1", (FAQ,), "RETURNS take", "case", 1),
    )


ACCEPTED = {
    "passages of a document": [Judgment(FAQ, 3, "five days"), Judgment(FAQ, 1, "Returns")],
    "spans of a document": [Judgment(LIGHTS, 3, RING, (Span(22, 42),)), Judgment(LIGHTS, 1, RING, (Span(43, 63),))],
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_different_grades_of_different_passages_are_kept(library: Library, case: str) -> None:
    judgments = resolve(labels(*ACCEPTED[case]), library, "id").labels.queries[0].relevant_docs
    assert [judgment.relevance for judgment in judgments] == [3, 1]
    both = PromptQueries((Query("q1", "x", (Judgment(FAQ, 3),)), Query("q2", "x", (Judgment(FAQ, 0),))))
    assert resolve(both, library, "id").labels == both


def test_equal_labels_and_equal_warnings_are_one(library: Library, tmp_path: Path) -> None:
    resolved = resolve(labels(Judgment(FAQ, 2), Judgment(RESET), Judgment(FAQ, 2)), library, "id")
    assert resolved.labels.queries[0].relevant_docs == (Judgment(FAQ, 2), Judgment(RESET))
    assert resolved.warnings == (ReportWarning("same-label", "query 'q1' judges 'faq.md' twice, with one grade."),)
    quoted, given = Judgment(FAQ, 1, "five days"), Judgment(FAQ, 1, None, (Span(13, 22),))
    resolved = resolve(labels(quoted, given), library, "id")
    assert [judgment.spans for judgment in resolved.labels.queries[0].relevant_docs] == [(Span(13, 22),)]
    assert [warning.code for warning in resolved.warnings] == ["same-label"]
    assert [resolution.how for resolution in resolved.resolutions] == ["exact", "offsets"]
    known = [Judgment(FAQ, 2, group="a"), Judgment(FAQ, 1, group="b"), Judgment(FAQ, 3)]
    assert resolve(labels(*known), library, "id").labels.queries[0].relevant_docs == tuple(known)
    assert faults_of(labels(*known[:2], Judgment(FAQ, 1, group="a")), library) == [grades(1, 2)]
    assert faults_of(labels(known[0], Judgment(FAQ, -1)), library) == [grades(-1, 2)]
    twice = (Judgment(FAQ),) * 2
    resolved = resolve(PromptQueries(tuple(Query(f"q{number}", "x", twice) for number in range(1_000))), library, "id")
    (warning,) = resolved.warnings
    said = [f"query 'q{number}' judges 'faq.md' twice, with one grade." for number in range(3)]
    assert (warning.code, warning.message) == ("same-label", f"{' '.join(said)} And 997 more.")
    library = library_of(tmp_path, {"a": "red hub, Red hub"})
    (resolution,) = resolve(labels(Judgment("a", 1, "red hub", (Span(0, 7), Span(9, 16)))), library, "id").resolutions
    assert (resolution.how, resolution.places, resolution.moved) == ("case", 2, False)


@pytest.mark.parametrize(("written", "named"), [("u\u0308.md", "\u00fc.md"), ("\u00fc.md", "u\u0308.md")])
def test_names_and_quotes_are_found_in_either_unicode_form(tmp_path: Path, written: str, named: str) -> None:
    library = library_of(tmp_path, {written: "the caf\u00e9\r\ncloses", "e\u0301.txt": "One."})
    wanted = labels(Judgment(named, 1, "cafe\u0301\r\ncloses"), Judgment("\u00e9.txt"))
    judgments = resolve(wanted, library, "id").labels.queries[0].relevant_docs
    assert [(judgment.doc, judgment.spans) for judgment in judgments] == [
        (written, (Span(4, 15),)),
        ("e\u0301.txt", ()),
    ]
    hashed = Judgment(named, 1, "closes", (Span(9, 15),), text_hash("the caf\u00e9\ncloses"))
    assert resolve(labels(hashed), library, "id").warnings == ()


@pytest.mark.parametrize(("match", "known"), [("id", FAQ), ("content", TEXTS[FAQ])])
def test_a_document_that_is_not_there_may_be_not_relevant(library: Library, match: Match, known: str) -> None:
    edited = (Judgment(FAQ, 0, "Once it said so"), Judgment(FAQ, 0, None, (Span(0, 4),), text_hash("Once")))
    given = labels(Judgment(known, 2), Judgment("doc5", -1), *(edited if match == "id" else ()))
    resolved = resolve(given, library, match)
    assert [(one.doc, one.relevance) for one in resolved.labels.queries[0].relevant_docs] == [(FAQ, 2)]
    reasons = {"'doc5' the grade -1, and it is not in the corpus": "id content",
               f"'Once it said so' of '{FAQ}' the grade 0, and it is not there": "id",
               f"characters 0 to 4 of '{FAQ}' the grade 0, and it was changed since": "id"}  # fmt: skip
    told = " ".join(f"query 'q1' gives {one}; the label has no effect." for one, of in reasons.items() if match in of)
    assert resolved.warnings == (ReportWarning.of_verdict("unknown-documents", told),)


def test_a_forbidden_passage_of_a_document_that_counts_is_told_where_documents_are_scored() -> None:
    def query(*labels: tuple[str, int]) -> Query:
        return Query("q", "?", tuple(Judgment(doc, grade, f"passage {n}") for n, (doc, grade) in enumerate(labels)))

    assert forbidden_warnings([query(("a", 1), ("b", -1)), query(("a", -1), ("a", -2))]) == []
    (warning,) = forbidden_warnings([query(("a", 1), ("b", -1), ("b", 0)), query(("a", 2), ("a", -1))])
    assert "higher grade, too: 'b' for query 'q', 'a' for query 'q'. Under `unit: span` it does." in warning.message
