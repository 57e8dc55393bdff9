"""BM25: the formulas, what bm25s and rank-bm25 say of the same terms, and what bm25s alone would get wrong."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bm25_shelf import Shelf, asked, ids, opened, scores, shelf
from expectations import message_of
from ragtrial.cache.fingerprints import file_digest
from ragtrial.cache.workspace import Workspace
from ragtrial.components.retrievers.bm25 import Bm25Retriever
from ragtrial.components.terms import Analyzer, TermIndex, TermLists, Weighting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import beir_labels
from ragtrial.dataset.library import Library
from ragtrial.errors import ConfigError, CorpusError, RunError
from ragtrial.rankings import PADDING

METHODS = get_args(Bm25Retriever.model_fields["method"].annotation)
PLAIN = {"stemmer": "none", "stop_words": "none"}

# Three documents of 4, 2 and 3 words: on average 3. `rye` is in two of them, `oven` in one, `soup` in one.
BREAD = {"a": "rye rye bread oven", "b": "rye soup", "c": "milk milk milk"}


@pytest.fixture
def bread(tmp_path: Path) -> Shelf:
    return shelf(tmp_path, BREAD)


@pytest.mark.slow
def test_scores_are_lucenes_and_each_method_has_its_delta(bread: Shelf) -> None:
    found = asked(opened(bread, **PLAIN), "rye oven", "milk")
    # idf = ln(1 + (N - n + 0.5) / (n + 0.5)): rye ln(1.6), oven and milk ln(8 / 3);
    # tf / (tf + k1 (1 - b + b length / mean)), k1 = 1.2, b = 0.75:
    # tf / (tf + 1.5) with length 4, tf / (tf + 0.9) with 2.
    a = math.log(1.6) * 2 / 3.5 + math.log(8 / 3) * 1 / 2.5
    b = math.log(1.6) * 1 / 1.9
    assert ids(found) == [["a", "b"], ["c"]]
    assert scores(found) == [pytest.approx([a, b], abs=1e-6), pytest.approx([math.log(8 / 3) * 3 / 4.2], abs=1e-6)]
    assert (round(a, 4), round(b, 4)) == (0.6609, 0.2474)
    deltas = {"lucene": 0.0, "robertson": 0.0, "atire": 0.0, "bm25l": 0.5, "bm25+": 1.0}
    for method in METHODS:
        assert Bm25Retriever(method=method).weighting == Weighting(method, 1.2, 0.75, deltas[method])
    assert Bm25Retriever(method="bm25+", k1=2, b=0.5, delta=0.2).weighting == Weighting("bm25+", 2, 0.5, 0.2)


words = st.lists(st.sampled_from("abcdefgh"), max_size=8)
corpora = st.lists(words, min_size=1, max_size=12).filter(any)
weightings = st.builds(
    Weighting,
    st.sampled_from(METHODS),
    st.sampled_from([0.5, 1.2, 3.0]),
    st.sampled_from([0.0, 0.4, 0.75, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
few = settings(max_examples=50)  # each writes an index to the disk


class BySpaces(Analyzer):
    def terms(self, text: str) -> list[str]:
        return text.split()


def index_of(corpus: list[list[str]], weighting: Weighting, order: list[int] | None = None) -> TermIndex:
    places = np.array(order if order else range(len(corpus)), dtype=np.int64)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        TermLists.write(folder, [("", " ".join(terms)) for terms in corpus], BySpaces("none", ()), 1)
        lists = TermLists(folder)
        TermIndex.write(folder, lists, weighting)
        return TermIndex(folder, lists.vocabulary, places)


@few
@given(corpora, st.lists(words, min_size=1, max_size=4), weightings, st.data())
def test_scores_are_those_of_bm25s_and_hits_are_the_texts_with_a_word_of_the_question(
    corpus: list[list[str]], queries: list[list[str]], weighting: Weighting, data: st.DataObject
) -> None:
    import bm25s

    order = data.draw(st.permutations(range(len(corpus))))
    ours = index_of(corpus, weighting, list(order))
    theirs = bm25s.BM25(k1=weighting.k1, b=weighting.b, delta=weighting.delta, method=weighting.method)
    theirs.index(corpus, show_progress=False)
    found = ours.search([ours.known(query) for query in queries], len(corpus))
    for query, codes, given_scores in zip(queries, found.codes.tolist(), found.scores.tolist(), strict=True):
        hits = [place for place, terms in enumerate(corpus) if set(terms) & set(query)]
        expected = theirs.get_scores(query) if query else np.zeros(len(corpus))
        best = sorted(hits, key=lambda place: (-expected[place], order[place]))
        assert codes == best + [PADDING] * (len(corpus) - len(best))
        assert given_scores[: len(best)] == expected[best].tolist()


def test_bm25s_is_quiet_and_an_unknown_word_finds_nothing(bread: Shelf, capfd: pytest.CaptureFixture[str]) -> None:
    retriever = Bm25Retriever(stemmer="none", stop_words="none")
    found = asked(retriever.open(bread), "rye", "xylophone", "", "!?")
    assert ids(found) == [["a", "b"], [], [], []]
    assert found.facts == {"terms": 5, "queries_without_known_words": 3}
    assert not found.skipped.any()
    (warning,) = retriever.warnings("words", found.facts)
    assert warning.code == "bm25-unknown-words"
    assert warning.message == (
        "words: nothing was found for 3 questions: no chunk contains any of their words (ignoring stop words). "
        "Those with labels score 0."
    )
    assert list(retriever.warnings("words", asked(retriever.open(bread), "rye").facts)) == []
    scorer = Weighting("lucene", 1.2, 0.75, 0.5).scorer()
    assert (scorer.backend, scorer.csc_backend, scorer.dtype) == ("numpy", "numpy", "float32")
    asked(opened(bread, method="bm25+"), "rye")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", METHODS)
def test_a_word_that_is_worth_nothing_still_makes_a_hit_and_its_absence_none(method: str, tmp_path: Path) -> None:
    held = shelf(tmp_path, {"c": "rye", "b": "rye", "a": "rye", "d": "soup"})  # rye is in more than half
    (found,) = ids(asked(opened(held, method=method, **PLAIN), "rye"))
    assert found == ["a", "b", "c"]


def test_equal_scores_go_by_document_id_then_by_where_the_chunk_starts(tmp_path: Path) -> None:
    held = shelf(tmp_path, {"b": "rye rye", "c": "rye rye", "a": "rye rye"})
    held.held = Chunks.of(held.library, [(0, 4, 7), (1, 0, 3), (0, 0, 3), (2, 4, 7), (2, 0, 3), (1, 4, 7)])
    for depth in range(7):
        found = asked(opened(held, **PLAIN), "rye", depth=depth)
        places = [(found.units.document_id(code), int(found.units.start[code])) for code in found.rankings.codes[0]]
        assert places == [("a", 0), ("a", 4), ("b", 0), ("b", 4), ("c", 0), ("c", 4)][:depth]


def test_titles_count_by_weight_or_alone(tmp_path: Path) -> None:
    texts, titles = {"a": "milk", "b": "rye milk bread", "c": "tea"}, {"a": "Rye", "c": "Tea"}
    found = {}
    for weight in (0, 1, 3):
        (tmp_path / str(weight)).mkdir()
        titled = shelf(tmp_path / str(weight), texts, titles)
        found[weight] = asked(opened(titled, title_weight=weight, **PLAIN), "rye")
    assert [ids(found[weight]) for weight in (0, 1, 3)] == [[["b"]], [["a", "b"]], [["a", "b"]]]
    (tmp_path / "written").mkdir()
    written = shelf(tmp_path / "written", {**texts, "a": "rye rye rye milk", "c": "tea tea tea tea"})
    assert scores(found[3]) == scores(asked(opened(written, **PLAIN), "rye"))
    assert scores(found[3]) != scores(found[1])
    held = shelf(tmp_path, {"a": ""}, {"a": "Rye"})
    Bm25Retriever().check(held, [])
    assert ids(asked(opened(held), "rye")) == [["a"]]
    with pytest.raises(CorpusError, match="no document has any text"):
        Bm25Retriever(title_weight=0).check(held, [])


def test_the_terms_are_read_once_for_all_weights_and_the_index_is_kept(bread: Shelf) -> None:
    first = asked(opened(bread), "rye oven")
    assert bread.built == ["terms", "bm25"]
    again = asked(opened(bread), "rye oven")
    asked(opened(bread, top_k=3, score=False), "rye")
    assert bread.built == ["terms", "bm25"]
    assert (ids(again), scores(again)) == (ids(first), scores(first))
    asked(opened(bread, k1=2), "rye")
    assert bread.built == ["terms", "bm25", "bm25"]
    asked(opened(bread, stemmer="none"), "rye")
    assert bread.built == ["terms", "bm25", "bm25", "terms", "bm25"]
    asked(opened(bread, title_weight=2), "rye")
    assert bread.built[5:] == ["terms", "bm25"]


def test_documents_without_a_word_are_told_before_and_after_cutting(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = shelf(tmp_path / "empty", {"a": "", "b": " \n"})
    assert message_of(CorpusError, Bm25Retriever().check, empty, []) == (
        "words: no document has any text (2 documents), so there is no word to look up; `dataset.corpus` names them."
    )
    for name, texts in {"marks": {"a": "!", "b": "..."}, "common": {"a": "the", "b": "of it"}}.items():
        (tmp_path / name).mkdir()
        held = shelf(tmp_path / name, texts)
        Bm25Retriever().check(held, [])
        assert message_of(RunError, asked, opened(held), "rye") == (
            "words: no chunk has a word to look up, ignoring stop words (2 chunks); BM25 needs words. "
            "Look at the chunks with `ragtrial chunks`."
        )


def test_stop_words_of_a_file_count_by_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "stop.txt"
    file.write_text("rye\n", encoding="utf-8")
    listed, named = Bm25Retriever(stop_words=("rye",)), Bm25Retriever(stop_words=str(file))
    assert named.hashed_content(file_digest) == listed.hashed_content(file_digest)
    held = shelf(tmp_path, BREAD)
    assert ids(asked(named.open(held), "rye oven")) == [["a"]]
    file.write_text("oven\n", encoding="utf-8")
    assert named.hashed_content(file_digest) != listed.hashed_content(file_digest)
    assert ids(asked(named.open(held), "rye oven")) == [["a", "b"]]
    file.unlink()
    with pytest.raises(ConfigError) as raised:
        named.check(replace(held, setting="words-stop_words-stop.txt"), [])  # as a sweep calls it
    assert str(raised.value) == f"{file}: there is no such file. `retrievers.words.stop_words` names it."


def test_two_languages_are_noticed() -> None:
    (warning,) = Bm25Retriever(stemmer="german").warnings("words", {})
    assert warning.message == (
        "words: `stemmer: german` with `stop_words: english`, two languages; is one of them the default, and forgotten?"
    )
    alike: list[dict[str, Any]] = [
        {"stemmer": "porter"}, {"stop_words": "english_plus"}, {"stemmer": "none", "stop_words": "german"},
    ]  # fmt: skip
    for options in alike:
        assert list(Bm25Retriever(**options).warnings("words", {})) == []
    assert list(Bm25Retriever(stemmer="finnish", stop_words="none").warnings("words", {})) == []


SCIFACT: dict[str, tuple[dict[str, Any], float]] = {
    # Anserini and Pyserini, whose terms are made much as ours are (regressions of beir-v1.0.0-scifact-flat; k1 1.5 and
    # b 0.75 in the benchmarks of bm25s), then bm25s with its own terms (xhluca/bm25-benchmarks), all as nDCG@10.
    "pyserini": ({"k1": 0.9, "b": 0.4, "stemmer": "porter"}, 0.6789),
    "pyserini-1.5": ({"k1": 1.5, "b": 0.75, "stemmer": "porter"}, 0.688),
    "bm25s-1.5": ({"k1": 1.5, "b": 0.75}, 0.687),
    "bm25s-atire": ({"method": "atire"}, 0.681),
    "bm25s-bm25l": ({"method": "bm25l"}, 0.687),
}


def test_scifact_is_ranked_as_well_as_published(shared_data: Path, tmp_path: Path) -> None:
    import pytrec_eval

    folder = shared_data / "scifact"
    Library.write(folder / "corpus.jsonl", tmp_path)
    library = Library(tmp_path)
    chunks = Chunks.of(library, [(place, 0, len(library.text(place))) for place in range(len(library))])
    held = Shelf(library, tmp_path, held=chunks, workspace=Workspace(tmp_path / "workspace"))
    labelled = beir_labels(folder, "test").labels.queries
    qrels = {query.id: {one.doc: one.relevance for one in query.relevant_docs} for query in labelled}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10"})
    made = {}
    for name, (options, _) in SCIFACT.items():
        found = asked(opened(held, **options), *(query.text for query in labelled))
        run = {
            query.id: {document: 10.0 - rank for rank, document in enumerate(row)}
            for query, row in zip(labelled, ids(found), strict=True)
        }
        made[name] = float(np.mean([values["ndcg_cut_10"] for values in evaluator.evaluate(run).values()]))
    assert len(qrels) == 300
    assert made == pytest.approx({name: published for name, (_, published) in SCIFACT.items()}, abs=0.005)
