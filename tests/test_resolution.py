"""Labels are looked up in the documents: every judgment has its document and places, or all faults are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora import library_of
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import Match, resolve
from ragtrial.errors import LabelsError
from ragtrial.records import Caution, Judgment, PromptQueries, Query, Span

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
    assert resolved.cautions == ()


def test_a_quote_is_located_in_its_own_document(library: Library) -> None:
    resolved = resolve(labels(Judgment("hub/reset.md", 3, " ring  blinks\tred ")), library, "id")
    assert resolved.labels.queries[0].relevant_docs == (
        Judgment("hub/reset.md", 3, " ring  blinks\tred ", (Span(46, 61),)),
    )
    assert TEXTS["hub/reset.md"][46:61] == "ring blinks red"
    assert resolved.cautions == ()


def test_a_quote_in_another_unicode_form_is_located(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"a": "the caf\u00e9\r\ncloses"})
    resolved = resolve(labels(Judgment("a", 1, "cafe\u0301\r\ncloses")), library, "id")
    assert resolved.labels.queries[0].relevant_docs[0].spans == (Span(4, 15),)


def test_a_quote_that_stands_several_times_counts_everywhere_and_is_noticed(library: Library) -> None:
    resolved = resolve(labels(Judgment("hub/lights.md", 1, "The ring blinks red.")), library, "id")
    assert resolved.labels.queries[0].relevant_docs[0].spans == (Span(22, 42), Span(43, 63))
    assert resolved.cautions == (
        Caution(
            "quote-twice",
            "the quote 'The ring blinks red.' of query 'q1' stands 2 times in 'hub/lights.md'; "
            "each place counts as the answer.",
        ),
    )


def test_a_quote_that_is_not_in_its_document_is_refused_with_the_nearest_piece_of_that_document(
    library: Library,
) -> None:
    wanted = labels(Judgment("hub/lights.md", 1, "Steady red: no current"), Judgment("faq.md", 1, "unheard-of words"))
    assert faults_of(wanted, library) == [
        "query 'q1' quotes 'Steady red: no current', which is not in 'hub/lights.md'. "
        "The nearest is in 'hub/lights.md': 'Steady red: no power. The ring blinks re'.",
        "query 'q1' quotes 'unheard-of words', which is not in 'faq.md'.",
    ]


def test_a_quote_that_stands_in_another_document_alone_is_refused(library: Library) -> None:
    assert faults_of(labels(Judgment("faq.md", 1, "no power")), library) == [
        "query 'q1' quotes 'no power', which is not in 'faq.md'."
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
    assert resolved.cautions == (
        Caution(
            "passage-twice",
            "the passage 'The ring blinks red.' of query 'q1' stands in 3 places of 2 documents; "
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
        "the passage 'Hold the reset button for ten seconds.' of query '1' is in none of 3 documents. "
        "The nearest is in 'hub/reset.md': 'Hold the reset button for twelve seconds'.",
        "the passage 'nothing of the kind' of query '2' is in none of 3 documents.",
    ]


def test_a_long_passage_is_shortened_in_a_message(library: Library) -> None:
    (fault,) = faults_of(labels(Judgment("quite absent " * 40)), library, "content")
    shown = ("quite absent " * 40)[:157] + "..."
    assert fault == f"the passage {shown!r} of query 'q1' is in none of 3 documents."


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
    assert resolved.cautions == (Caution("same-label", "query 'q1' judges 'faq.md' twice, with one grade."),)


def test_a_query_without_relevant_documents_is_noticed(library: Library) -> None:
    resolved = resolve(labels(name="unanswered"), library, "id")
    assert resolved.cautions == (Caution("no-relevant", "query 'unanswered' has no relevant documents."),)


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
    assert [caution.code for caution in resolved.cautions] == ["no-relevant"]


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
    assert resolve(wanted, library, "id", threshold=1).cautions == ()
    assert [caution.code for caution in resolve(wanted, library, "id", threshold=2).cautions] == ["no-relevant"]


def test_labels_that_fit_only_in_the_other_unicode_form_are_not_taken_for_another_data_set(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"e\u0301.txt": "One.", "u\u0308.txt": "Two."})
    resolved = resolve(labels(Judgment("\u00e9.txt"), Judgment("\u00fc.txt")), library, "id")
    assert [judgment.doc for judgment in resolved.labels.queries[0].relevant_docs] == ["e\u0301.txt", "u\u0308.txt"]
