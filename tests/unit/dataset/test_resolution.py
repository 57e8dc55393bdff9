"""Labels are looked up in the documents: every judgment has its document and places, or all faults are reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from corpora import library_of
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import Match, Resolution, resolve
from ragtrial.dataset.texts import text_hash
from ragtrial.errors import LabelsError
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning, Span

TEXTS = {
    "hub/reset.md": "Hold the reset button for twelve seconds.\nThe ring blinks red.",
    "hub/lights.md": "Steady red: no power.\nThe ring blinks red.\nThe ring blinks red.",
    "faq.md": "Returns take five days.",
}


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return library_of(tmp_path, TEXTS)


def labels(*judgments: Judgment, name: str = "q1") -> PromptQueries:
    return PromptQueries((Query(name, "a question", judgments),))


def faults_of(wanted: PromptQueries, library: Library, match: Match = "id") -> list[str]:
    with pytest.raises(LabelsError) as caught:
        resolve(wanted, library, match, "prompt_queries.json")
    lines = str(caught.value).splitlines()
    assert all(line.startswith("prompt_queries.json: ") for line in lines)
    return [line.removeprefix("prompt_queries.json: ") for line in lines]


def test_a_judgment_of_a_document_stays_as_it_is(library: Library) -> None:
    wanted = PromptQueries(
        (Query("q1", "x", (Judgment("faq.md", 2), Judgment("hub/reset.md", -1)), ("tag",), ordered=True),), "{query}"
    )
    resolved = resolve(wanted, library, "id")
    assert resolved.labels == wanted
    assert resolved.warnings == ()


def test_a_quote_is_located_in_its_own_document(library: Library) -> None:
    resolved = resolve(labels(Judgment("hub/reset.md", 3, " ring  blinks\tred ")), library, "id")
    assert resolved.labels.queries[0].relevant_docs == (
        Judgment("hub/reset.md", 3, " ring  blinks\tred ", (Span(46, 61),)),
    )
    assert TEXTS["hub/reset.md"][46:61] == "ring blinks red"
    assert resolved.warnings == ()


def test_a_quote_in_another_unicode_form_is_located(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"a": "the caf\u00e9\r\ncloses"})
    resolved = resolve(labels(Judgment("a", 1, "cafe\u0301\r\ncloses")), library, "id")
    assert resolved.labels.queries[0].relevant_docs[0].spans == (Span(4, 15),)


def test_a_quote_that_stands_several_times_counts_everywhere_and_is_noticed(library: Library) -> None:
    resolved = resolve(labels(Judgment("hub/lights.md", 1, "The ring blinks red.")), library, "id")
    assert resolved.labels.queries[0].relevant_docs[0].spans == (Span(22, 42), Span(43, 63))
    assert resolved.warnings == (
        ReportWarning(
            "quote-twice",
            "the quote 'The ring blinks red.' of query 'q1' occurs 2 times in 'hub/lights.md'; "
            "each place counts as the answer.",
        ),
    )


def test_a_quote_that_is_not_in_its_document_is_refused_with_the_nearest_piece_of_that_document(
    library: Library,
) -> None:
    wanted = labels(Judgment("hub/lights.md", 1, "Steady red: no current"), Judgment("faq.md", 1, "unheard-of words"))
    assert faults_of(wanted, library) == [
        "query 'q1' quotes 'Steady red: no current', which is not in 'hub/lights.md'. "
        "The nearest is in 'hub/lights.md': 'Steady red: no'.",
        "query 'q1' quotes 'unheard-of words', which is not in 'faq.md'.",
    ]


def test_a_quote_that_stands_in_another_document_alone_is_refused(library: Library) -> None:
    assert faults_of(labels(Judgment("faq.md", 1, "no power")), library) == [
        "query 'q1' quotes 'no power', which is not in 'faq.md'. It is in 'hub/lights.md'."
    ]


def test_an_unknown_document_is_refused_with_the_nearest_id(library: Library) -> None:
    wanted = PromptQueries(
        (
            Query("q1", "x", (Judgment("hub/rest.md"), Judgment("faq.md"))),
            Query("q2", "x", (Judgment("HUB/LIGHTS.MD"), Judgment("91"))),
        )
    )
    assert faults_of(wanted, library) == [
        "query 'q1' judges 'hub/rest.md', which is not in the corpus (3 documents). Did you mean 'hub/reset.md'?",
        "query 'q2' judges 'HUB/LIGHTS.MD', which is not in the corpus (3 documents). Did you mean 'hub/lights.md'?",
        "query 'q2' judges '91', which is not in the corpus (3 documents).",
    ]


def test_white_space_that_makes_an_id_unknown_is_shown(library: Library) -> None:
    """Cells of spreadsheets end in spaces: the message must not name, and suggest, what looks like the same id."""
    wanted = labels(Judgment("hub/reset.md "), Judgment("hub/  reset.md"), Judgment("faq.md"))
    assert faults_of(wanted, library)[:2] == [
        "query 'q1' judges 'hub/reset.md ', which is not in the corpus (3 documents). Did you mean 'hub/reset.md'?",
        "query 'q1' judges 'hub/  reset.md', which is not in the corpus (3 documents). Did you mean 'hub/reset.md'?",
    ]


def test_of_a_hundred_unknown_documents_twenty_are_named_and_the_rest_counted(library: Library) -> None:
    wanted = labels(Judgment("faq.md"), *(Judgment(f"faq{number}.md") for number in range(100)))
    faults = faults_of(wanted, library)
    assert len(faults) == 21
    assert faults[0].endswith("Did you mean 'faq.md'?")
    assert faults[19] == "query 'q1' judges 'faq19.md', which is not in the corpus (3 documents)."
    assert faults[20] == "and 80 more faults like these."


def test_a_passage_becomes_one_judgment_for_each_document_that_holds_it(library: Library) -> None:
    passage = "The ring\nblinks red."
    resolved = resolve(labels(Judgment(passage, 2), Judgment("Returns take", 1)), library, "content")
    assert resolved.labels.queries[0].relevant_docs == (
        Judgment("hub/reset.md", 2, passage, (Span(42, 62),)),
        Judgment("hub/lights.md", 2, passage, (Span(22, 42), Span(43, 63))),
        Judgment("faq.md", 1, "Returns take", (Span(0, 12),)),
    )
    assert resolved.warnings == (
        ReportWarning(
            "passage-twice",
            "the passage 'The ring blinks red.' of query 'q1' is in 3 places of 2 documents; "
            "each counts as the answer.",
        ),
    )


def test_every_located_span_holds_the_words_of_its_passage(library: Library) -> None:
    resolved = resolve(labels(Judgment("seconds. The  ring blinks"), Judgment("red.\n\nThe ring")), library, "content")
    found = resolved.labels.queries[0].relevant_docs
    assert [judgment.doc for judgment in found] == ["hub/reset.md", "hub/lights.md"]
    for judgment in found:
        for span in judgment.spans:
            assert TEXTS[judgment.doc][span.start : span.end].split() == (judgment.quote or "").split()


def test_passages_that_are_nowhere_are_all_refused_with_the_nearest_of_each(library: Library) -> None:
    wanted = PromptQueries(
        (
            Query("1", "x", (Judgment("Hold the reset button for ten seconds."), Judgment("Returns take"))),
            Query("2", "x", (Judgment("nothing of the kind"),)),
        )
    )
    assert faults_of(wanted, library, "content") == [
        "the passage 'Hold the reset button for ten seconds.' of query '1' is not in any of the 3 documents. "
        "The nearest is in 'hub/reset.md': 'Hold the reset button for twelve seconds.'.",
        "the passage 'nothing of the kind' of query '2' is not in any of the 3 documents.",
    ]


def test_a_long_passage_is_shortened_in_a_message(library: Library) -> None:
    (fault,) = faults_of(labels(Judgment("quite absent " * 40)), library, "content")
    shown = ("quite absent " * 40)[:157] + "..."
    assert fault == f"the passage {shown!r} of query 'q1' is not in any of the 3 documents."


def test_two_grades_for_one_document_are_refused(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 1), Judgment("faq.md", 3), Judgment("hub/reset.md", 0))
    assert faults_of(wanted, library) == [
        "query 'q1' gives 'faq.md' the grades 1 and 3; one document (or one passage of it) has one grade."
    ]


def test_two_grades_for_one_passage_are_refused_however_it_is_spaced(library: Library) -> None:
    wanted = labels(Judgment("Returns take", 1), Judgment("Returns  take", 2))
    assert faults_of(wanted, library, "content") == [
        "query 'q1' gives 'faq.md' the grades 1 and 2; one document (or one passage of it) has one grade."
    ]


def test_different_passages_of_one_document_may_have_different_grades(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 3, "five days"), Judgment("faq.md", 1, "Returns"))
    spans = [judgment.spans for judgment in resolve(wanted, library, "id").labels.queries[0].relevant_docs]
    assert spans == [(Span(13, 22),), (Span(0, 7),)]


def test_different_queries_may_grade_one_document_differently(library: Library) -> None:
    wanted = PromptQueries((Query("q1", "x", (Judgment("faq.md", 3),)), Query("q2", "x", (Judgment("faq.md", 0),))))
    assert resolve(wanted, library, "id").labels == wanted


def test_a_label_that_stands_twice_counts_once_and_is_noticed(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 2), Judgment("hub/reset.md"), Judgment("faq.md", 2))
    resolved = resolve(wanted, library, "id")
    assert resolved.labels.queries[0].relevant_docs == (Judgment("faq.md", 2), Judgment("hub/reset.md"))
    assert resolved.warnings == (ReportWarning("same-label", "query 'q1' judges 'faq.md' twice, with one grade."),)


def test_a_query_without_relevant_documents_is_noticed(library: Library) -> None:
    """In one line, however many there are; those that are tagged as unanswerable are not among them."""
    queries = [*(Query(f"u{number}", "x") for number in range(30)), Query("known", "x", (Judgment("faq.md"),))]
    queries += [Query(f"none{number}", "x", (), ("unanswerable",)) for number in range(7)]
    assert resolve(PromptQueries(tuple(queries)), library, "id").warnings == (
        ReportWarning(
            "no-relevant",
            "30 of 38 questions have no answer yet (searched, not scored): add answers, or the tag `unanswerable`.",
        ),
    )


def test_labels_of_another_data_set_are_refused_in_one_sentence(library: Library) -> None:
    wanted = PromptQueries(tuple(Query(str(n), "x", (Judgment(f"doc-{n}"),)) for n in range(1200)))
    assert faults_of(wanted, library) == [
        "none of the 1,200 judged documents is in the corpus (3 documents). Labels have ids like 'doc-0', 'doc-1'; "
        "the corpus has ids like 'faq.md', 'hub/lights.md'. "
        "Are these the labels of another data set, or is `dataset.corpus` another folder?"
    ]


def test_passages_where_ids_are_due_are_refused_with_the_way_out(library: Library) -> None:
    passage = "Hold the reset button for twelve seconds. The ring blinks red."
    wanted = labels(Judgment(passage), Judgment("Steady red: no power. The ring blinks red. The ring blinks red."))
    assert faults_of(wanted, library) == [
        "none of the 2 judged documents is in the corpus (3 documents). "
        "Labels have ids like 'Hold the reset button for twelve seco...', 'Steady red: no power. The ring blinks...'; "
        "the corpus has ids like 'faq.md', 'hub/lights.md'. The labels hold passages: did you mean `match: content`?"
    ]


def test_every_kind_of_fault_is_reported_at_once(library: Library) -> None:
    wanted = PromptQueries(
        (
            Query("q1", "x", (Judgment("faq.md", 1), Judgment("faq.md", 2))),
            Query("q2", "x", (Judgment("gone.md"), Judgment("faq.md", 1, "absent"))),
        )
    )
    assert faults_of(wanted, library) == [
        "query 'q1' gives 'faq.md' the grades 1 and 2; one document (or one passage of it) has one grade.",
        "query 'q2' judges 'gone.md', which is not in the corpus (3 documents).",
        "query 'q2' quotes 'absent', which is not in 'faq.md'.",
    ]


def test_labels_are_not_changed_by_being_resolved(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 1, "Returns"))
    resolve(wanted, library, "id")
    assert wanted == labels(Judgment("faq.md", 1, "Returns"))


def test_one_unknown_document_alone_is_taken_for_a_slip_and_gets_a_suggestion(library: Library) -> None:
    (fault,) = faults_of(labels(Judgment("hub/light.md")), library)
    assert fault.endswith("which is not in the corpus (3 documents). Did you mean 'hub/lights.md'?")


def test_a_query_whose_labels_all_say_not_relevant_is_warned_about(library: Library) -> None:
    resolved = resolve(labels(Judgment("faq.md", 0)), library, "id")
    assert [warning.code for warning in resolved.warnings] == ["no-relevant"]


@pytest.mark.parametrize(("written", "named"), [("u\u0308.md", "\u00fc.md"), ("\u00fc.md", "u\u0308.md")])
def test_a_file_name_is_found_in_either_unicode_form(tmp_path: Path, written: str, named: str) -> None:
    library = library_of(tmp_path, {written: "Text."})
    ((judgment,),) = [query.relevant_docs for query in resolve(labels(Judgment(named)), library, "id").labels.queries]
    assert judgment.doc == written


def test_a_grade_of_the_whole_document_conflicts_with_another_of_a_passage_of_it(library: Library) -> None:
    quoted = Judgment("faq.md", 3, "Returns take five days.")
    assert faults_of(labels(quoted, Judgment("faq.md", 0)), library) == [
        "query 'q1' gives 'faq.md' the grades 0 and 3; one document (or one passage of it) has one grade."
    ]


def test_two_passages_of_one_document_may_have_two_grades(library: Library) -> None:
    first, second = Judgment("hub/reset.md", 3, "Hold the reset button"), Judgment("hub/reset.md", 1, "blinks red")
    assert len(resolve(labels(first, second), library, "id").labels.queries[0].relevant_docs) == 2


def test_under_a_threshold_of_two_a_query_with_grades_of_one_has_no_relevant_documents(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 1))
    assert resolve(wanted, library, "id", threshold=1).warnings == ()
    assert [warning.code for warning in resolve(wanted, library, "id", threshold=2).warnings] == ["no-relevant"]


def test_labels_that_fit_only_in_the_other_unicode_form_are_not_taken_for_another_data_set(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"e\u0301.txt": "One.", "u\u0308.txt": "Two."})
    resolved = resolve(labels(Judgment("\u00e9.txt"), Judgment("\u00fc.txt")), library, "id")
    assert [judgment.doc for judgment in resolved.labels.queries[0].relevant_docs] == ["e\u0301.txt", "u\u0308.txt"]


LIGHTS = "hub/lights.md"
RING = "The ring blinks red."  # at 22 to 42 and at 43 to 63 of LIGHTS


def one_resolved(judgment: Judgment, library: Library) -> tuple[Judgment, Resolution, list[ReportWarning]]:
    resolved = resolve(labels(judgment), library, "id")
    ((found,),) = [query.relevant_docs for query in resolved.labels.queries]
    (resolution,) = resolved.resolutions
    return found, resolution, list(resolved.warnings)


def test_offsets_alone_are_the_passage(library: Library) -> None:
    found, resolution, warnings = one_resolved(Judgment("faq.md", 2, None, (Span(0, 23),)), library)
    assert found == Judgment("faq.md", 2, None, (Span(0, 23),))
    assert resolution == Resolution("q1", ("faq.md",), None, "offsets", 1)
    assert resolution.is_plain
    assert warnings == []


@pytest.mark.parametrize(
    ("quote", "span", "how"),
    [
        (RING, (43, 63), "exact"),
        (f" {RING}\n", (42, 63), "exact"),  # the span stays as the label has it
        ("The ring\nblinks  red.", (22, 42), "spacing"),
        ("THE RING blinks\tred.", (43, 63), "case"),
    ],
)
def test_offsets_single_out_one_place_of_a_quote_that_stands_in_several(
    library: Library, quote: str, span: tuple[int, int], how: Literal["exact", "spacing", "case"]
) -> None:
    judgment = Judgment(LIGHTS, 1, quote, (Span(*span),), text_hash(TEXTS[LIGHTS]))
    found, resolution, warnings = one_resolved(judgment, library)
    assert found == judgment
    assert resolution == Resolution("q1", (LIGHTS,), quote, how, 1)
    assert warnings == []


@pytest.mark.parametrize("span", [(1, 21), (22, 41), (44, 1000)])
def test_a_quote_that_is_not_at_its_offsets_is_found_elsewhere_and_said_to_have_moved(
    library: Library, span: tuple[int, int]
) -> None:
    judgment = Judgment(LIGHTS, 1, "steady red", (Span(*span),))
    found, resolution, warnings = one_resolved(judgment, library)
    assert found.spans == (Span(0, 10),)
    assert resolution == Resolution("q1", (LIGHTS,), "steady red", "case", 1, moved=True)
    assert not resolution.is_plain
    assert warnings == [
        ReportWarning(
            "label-moved",
            f"the quote 'steady red' of query 'q1' is not at characters {span[0]} to {span[1]:,} of 'hub/lights.md', "
            "where its label says; it was found at characters 0 to 10, and that counts.",
        )
    ]


def test_a_quote_that_moved_to_several_places_counts_at_each(library: Library) -> None:
    found, resolution, warnings = one_resolved(Judgment(LIGHTS, 1, "red", (Span(0, 3),)), library)
    assert found.spans == (Span(7, 10), Span(38, 41), Span(59, 62))
    assert (resolution.places, resolution.moved) == (3, True)
    assert [warning.code for warning in warnings] == ["label-moved", "quote-twice"]
    assert "it was found at characters 7 to 10 and 38 to 41 and 59 to 62, and that counts." in warnings[0].message


def test_a_quote_with_offsets_that_is_nowhere_is_refused_with_the_nearest_piece(library: Library) -> None:
    assert faults_of(labels(Judgment("faq.md", 1, "Returns take four days.", (Span(0, 23),))), library) == [
        "query 'q1' quotes 'Returns take four days.', which is not in 'faq.md'. "
        "The nearest is in 'faq.md': 'Returns take five days.'."
    ]


def test_offsets_outside_the_document_are_refused_with_its_length(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 1, None, (Span(20, 24),)), Judgment("faq.md", 1, None, (Span(3000, 4000),)))
    assert faults_of(wanted, library) == [
        "query 'q1' judges characters 20 to 24 of 'faq.md', which has 23 characters; "
        "offsets count the characters of its normalised text from 0.",
        "query 'q1' judges characters 3,000 to 4,000 of 'faq.md', which has 23 characters; "
        "offsets count the characters of its normalised text from 0.",
    ]


def test_offsets_count_characters_of_the_normalised_text(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"a": "cafe\u0301\r\ncloses"})
    found, _, _ = one_resolved(Judgment("a", 1, "closes", (Span(5, 11),), text_hash("caf\u00e9\ncloses")), library)
    assert found.spans == (Span(5, 11),)


def test_offsets_into_a_text_that_changed_are_refused_for_each_label(library: Library) -> None:
    old = text_hash("Returns take six days.")
    wanted = labels(
        Judgment("faq.md", 1, None, (Span(0, 7),), old),
        Judgment("faq.md", 1, None, (Span(13, 22),), old),
        Judgment("hub/reset.md", 1, None, (Span(0, 4),), text_hash(TEXTS["hub/reset.md"])),
    )
    assert faults_of(wanted, library) == [
        "query 'q1' judges characters 0 to 7 of 'faq.md', which was changed since this label was made; "
        "add the quote, or make the label again.",
        "query 'q1' judges characters 13 to 22 of 'faq.md', which was changed since this label was made; "
        "add the quote, or make the label again.",
    ]


@pytest.mark.parametrize("spans", [(), (Span(13, 22),)])
def test_a_quote_that_is_still_in_a_text_that_changed_counts_and_the_change_is_told(
    library: Library, spans: tuple[Span, ...]
) -> None:
    judgment = Judgment("faq.md", 1, "five days", spans, "0123456789abcdef")
    found, resolution, warnings = one_resolved(judgment, library)
    assert found.spans == (Span(13, 22),)
    assert resolution == Resolution("q1", ("faq.md",), "five days", "exact", 1, changed=True)
    assert warnings == [
        ReportWarning(
            "text-changed",
            "'faq.md' was changed since the label of query 'q1' was made; its quote is still there.",
        )
    ]


def test_a_quote_that_is_gone_from_a_text_that_changed_is_refused_with_the_reason(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 1, "Returns take six days.", (), "0123456789abcdef"))
    assert faults_of(wanted, library) == [
        "query 'q1' quotes 'Returns take six days.', which is not in 'faq.md', which was changed since this label was "
        "made. The nearest is in 'faq.md': 'Returns take five days.'."
    ]


def test_a_label_of_a_whole_document_that_changed_still_counts_and_the_change_is_told(library: Library) -> None:
    resolved = resolve(labels(Judgment("faq.md", 1, None, (), "0123456789abcdef")), library, "id")
    assert resolved.resolutions == ()
    assert resolved.warnings == (
        ReportWarning("text-changed", "'faq.md' was changed since the label of query 'q1' was made; it still counts."),
    )


@pytest.mark.parametrize(
    ("judgment", "given"),
    [
        (Judgment("Returns take", 1, None, (Span(0, 12),)), "start and end"),
        (Judgment("Returns take", 1, None, (), "0123456789abcdef"), "text_hash"),
    ],
)
def test_what_speaks_of_one_document_is_refused_under_match_content(
    library: Library, judgment: Judgment, given: str
) -> None:
    assert faults_of(labels(judgment), library, "content") == [
        f"the passage 'Returns take' of query 'q1' has {given}, which belongs to `match: id`; leave {given} "
        "out, or write `match: id`, the document's id in doc and the passage in quote."
    ]


def test_two_spans_of_one_document_are_two_judgments_whatever_their_grades(library: Library) -> None:
    wanted = labels(Judgment(LIGHTS, 3, RING, (Span(22, 42),)), Judgment(LIGHTS, 1, RING, (Span(43, 63),)))
    assert resolve(wanted, library, "id").labels == wanted


def test_two_grades_for_one_span_are_refused_and_one_grade_twice_is_noticed(library: Library) -> None:
    quoted, given = Judgment("faq.md", 1, "five days"), Judgment("faq.md", 2, None, (Span(13, 22),))
    assert faults_of(labels(quoted, given), library) == [
        "query 'q1' gives 'faq.md' the grades 1 and 2; one document (or one passage of it) has one grade."
    ]
    resolved = resolve(labels(quoted, replace(given, relevance=1)), library, "id")
    assert [judgment.spans for judgment in resolved.labels.queries[0].relevant_docs] == [(Span(13, 22),)]
    assert [warning.code for warning in resolved.warnings] == ["same-label"]
    assert [resolution.how for resolution in resolved.resolutions] == ["exact", "offsets"]


def test_lost_quotes_of_two_grades_are_refused_for_being_lost_alone(library: Library) -> None:
    wanted = labels(Judgment("faq.md", 1, "unheard-of words"), Judgment("faq.md", 2, "nothing of the kind"))
    assert faults_of(wanted, library) == [
        "query 'q1' quotes 'unheard-of words', which is not in 'faq.md'.",
        "query 'q1' quotes 'nothing of the kind', which is not in 'faq.md'.",
    ]


def test_how_each_passage_was_found_is_kept_in_the_order_of_the_labels(library: Library) -> None:
    wanted = PromptQueries(
        (
            Query("b", "x", (Judgment("hub/reset.md", 1, "BUTTON for"), Judgment("faq.md"))),
            Query("a", "x", (Judgment(LIGHTS, 1, RING), Judgment("faq.md", 1, "take\nfive"))),
        )
    )
    resolved = resolve(wanted, library, "id")
    assert resolved.resolutions == (
        Resolution("b", ("hub/reset.md",), "BUTTON for", "case", 1),
        Resolution("a", (LIGHTS,), RING, "exact", 2),
        Resolution("a", ("faq.md",), "take\nfive", "spacing", 1),
    )
    assert not any(resolution.is_plain for resolution in resolved.resolutions)
    by_content = resolve(labels(Judgment(RING), Judgment("RETURNS")), library, "content")
    assert by_content.resolutions == (
        Resolution("q1", ("hub/reset.md", LIGHTS), RING, "exact", 3),
        Resolution("q1", ("faq.md",), "RETURNS", "case", 1),
    )


def test_labels_that_were_resolved_resolve_to_themselves(library: Library) -> None:
    wanted = labels(Judgment(LIGHTS, 1, RING), Judgment("faq.md", 2, "five\ndays"), Judgment("hub/reset.md"))
    once = resolve(wanted, library, "id").labels
    assert resolve(once, library, "id").labels == once


def test_of_many_lost_quotes_the_first_five_are_told_with_the_nearest(library: Library) -> None:
    wanted = labels(*(Judgment("faq.md", 1, f"Returns take {number} days.") for number in range(7)))
    faults = faults_of(wanted, library)
    assert [" The nearest is in 'faq.md': 'Returns take" in fault for fault in faults] == [
        True, True, True, True, True, False, False,
    ]  # fmt: skip


def test_a_quote_whose_offsets_reach_beyond_the_end_has_moved(library: Library) -> None:
    found, resolution, _ = one_resolved(Judgment("faq.md", 1, "five days.", (Span(13, 24),)), library)
    assert (found.spans, resolution.moved) == ((Span(13, 23),), True)


def test_of_several_given_places_the_one_least_like_the_quote_tells_how_it_was_found(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"a": "red hub, Red hub"})
    _, resolution, _ = one_resolved(Judgment("a", 1, "red hub", (Span(0, 7), Span(9, 16))), library)
    assert (resolution.how, resolution.places, resolution.moved) == ("case", 2, False)


def test_a_grade_of_a_passage_conflicts_with_an_earlier_one_of_the_whole_document(library: Library) -> None:
    assert faults_of(labels(Judgment("faq.md", 0), Judgment("faq.md", 3, "five days")), library) == [
        "query 'q1' gives 'faq.md' the grades 0 and 3; one document (or one passage of it) has one grade."
    ]


def test_a_kind_of_warning_is_one_with_the_first_three_and_a_count(library: Library) -> None:
    twice = (Judgment("faq.md"),) * 2
    found = resolve(PromptQueries(tuple(Query(f"q{number}", "x", twice) for number in range(1_000))), library, "id")
    (warning,) = found.warnings
    said = [f"query 'q{number}' judges 'faq.md' twice, with one grade." for number in range(3)]
    assert (warning.code, warning.message) == ("same-label", f"{' '.join(said)} And 997 more.")
