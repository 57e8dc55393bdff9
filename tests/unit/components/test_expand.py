"""The refiner that asks several wordings of a question."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from corpora import library_of
from experiments import write_experiment
from ragtrial import RetrievalEvaluator, run_experiment
from ragtrial.components.interfaces import Candidates, RetrieverContext
from ragtrial.components.refiners.fusion import ExpandRefiner
from ragtrial.config.load import load_config
from ragtrial.dataset.chunks import Chunks
from ragtrial.rankings import from_rows
from ragtrial.records import Question, ReportWarning
from refining import rows_of
from report_hits import hits_of
from small_experiment import CONFIG, small_experiment

RYE = Question("rye?", ("sourdough?", " rye? ", "dark bread?"), where={"lang": "en"})
PLAIN = Question("soup?")


@dataclass(frozen=True)
class Nothing:
    """Expansion asks for no materials but the name."""

    setting: str = "expanded"


@pytest.fixture
def units(tmp_path: Path) -> Chunks:
    library = library_of(tmp_path, {"b": "bread", "a": "apple", "c": "cherry"})
    return Chunks.of(library, [(document, 0, 5) for document in range(3)])


def expand(**options: Any) -> ExpandRefiner:
    return ExpandRefiner(inputs="dense", **options)


def refined(
    units: Chunks, refiner: ExpandRefiner, questions: Sequence[Question], rows: Sequence[Sequence[int]], *skipped: int
) -> Candidates:
    """What becomes of the rankings of all wordings; scores fall from 0.5 by 0.1."""
    made = from_rows(rows, [[0.5 - rank / 10 for rank in range(len(row))] for row in rows])
    part = Candidates(units, made, np.isin(np.arange(len(rows)), skipped))
    return refiner.open(cast("RetrieverContext", Nothing())).refine(questions, [part])


def texts(refiner: ExpandRefiner, question: Question) -> list[str]:
    return [wording.text for wording in refiner.wordings(question)]


# What is asked.


def test_wordings_are_question_phrasings_and_templates_with_its_filters() -> None:
    refiner = expand(templates=["{query}", "A text on {query} ({query})"])
    assert texts(refiner, RYE) == ["rye?", "sourdough?", "dark bread?", "A text on rye? (rye?)"]
    assert refiner.asked(RYE) == texts(refiner, RYE)
    assert texts(expand(), PLAIN) == ["soup?"]
    template = "A text on {query}"
    assert texts(expand(question=False), RYE) == ["sourdough?", " rye? ", "dark bread?"]
    assert texts(expand(question=False, phrasings=False, templates=[template]), RYE) == ["A text on rye?"]
    assert texts(expand(phrasings=False, templates=[template]), RYE) == ["rye?", "A text on rye?"]
    assert texts(expand(question=False), PLAIN) == ["soup?"], "there is no other wording"
    refiner = expand(templates=['{"text": "{query}", "n": {}}'])
    assert texts(refiner, Question("what is {query} or {0}?"))[1] == '{"text": "what is {query} or {0}?", "n": {}}'
    for wording in expand().wordings(RYE):
        assert (wording.where, wording.phrasings) == ({"lang": "en"}, ())
    other = Question("rye?", ("sourdough?",))
    assert expand().asked(RYE) != expand().asked(other)
    plain = expand(phrasings=False, templates=["On {query}"])
    assert plain.asked(RYE) == plain.asked(other)


# What becomes of the answers.


def test_the_rankings_of_the_wordings_of_each_question_are_fused(units: Chunks) -> None:
    # Three wordings of the first question, one of the second.
    found = refined(units, expand(), [RYE, PLAIN], [[0, 1], [2, 1], [1], [2, 0]])
    assert rows_of(found) == [[1, 0, 2], [2, 0]]
    assert found.rankings.scores[0].tolist() == pytest.approx([1 / 62 + 1 / 62 + 1 / 61, 1 / 61, 1 / 61])
    assert found.units is units
    assert found.facts == {"queries": 2, "mean_wordings": 2, "without_phrasings": 1}
    assert rows_of(refined(units, expand(), [Question("?", ("!",))], [[0], [1]])) == [[1, 0]]


# What is said of it.


def test_labels_without_any_phrasings_are_a_warning() -> None:
    facts = {"queries": 3, "without_phrasings": 3}
    assert list(expand().warnings("wide", facts)) == [
        ReportWarning(
            "no-phrasings",
            "wide: no query has `phrasings` in the labels, so nothing but the query was asked; write phrasings into "
            "the labels, or give templates.",
        )
    ]
    assert [warning.message for warning in expand(templates=["On {query}"]).warnings("wide", facts)] == [
        "wide: no query has `phrasings` in the labels, so nothing but the query and the templates were asked; write "
        "phrasings into the labels, or set phrasings: false."
    ]
    assert not list(expand().warnings("wide", {"queries": 3, "without_phrasings": 2}))
    assert not list(expand().warnings("wide", {"queries": 0, "without_phrasings": 0}))
    unused = expand(phrasings=False, templates=["On {query}"])
    assert not list(unused.warnings("wide", facts))


# What the config may say.


def test_what_a_file_has_for_a_question_was_not_found_for_its_other_wordings(tmp_path: Path) -> None:
    """Of another wording it has what it has under that text, if anything; what it lacks is reported."""
    entries = {
        "file": {"kind": "run_file", "path": "run.json", "score": False},
        "wide": {"kind": "expand", "inputs": "file", "top_k": 3},
    }
    experiment = write_experiment(tmp_path, retrievers=entries)
    asked = {"id": "rye", "text": "How long do I bake rye bread?", "phrasings": ["dark bread", "brown loaf"]}
    experiment.write_queries([{**asked, "relevant_docs": [{"doc": "bread/rye.md"}]}])
    run = {"rye": {"bread/rye.md": 2.0, "oven.txt": 1.0}, "dark bread": {"storage.txt": 3.0, "oven.txt": 2.0}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    report = run_experiment(experiment.config())
    (hits,) = hits_of(report, "wide").values()
    assert [hit.doc for hit in hits] == ["oven.txt", "bread/rye.md", "storage.txt"]
    assert [one.message for one in report.warnings if one.code == "queries-not-in-run"] == [
        "file, by itself, as a part of wide: labelled queries that are not in run.json: 1 ('brown loaf'); they score 0."
    ]


def test_a_fusion_with_other_phrasings_in_a_part_is_made_anew_and_no_other(tmp_path: Path) -> None:
    config = CONFIG.partition("retrievers:")[0] + (
        "retrievers:\n"
        "  bm25: {kind: bm25, top_k: 3}\n"
        "  wide: {kind: expand, inputs: bm25, top_k: 3, score: false}\n"
        "  both: {kind: fusion, inputs: [bm25, wide], top_k: 3}\n"
        "latency: false\n"
    )

    def found(folder: Path, phrasing: str) -> object:
        query = {"id": "q", "text": "thirty", "phrasings": [phrasing], "relevant_docs": [{"doc": "returns.md"}]}
        path = small_experiment(folder, config=config, labels={"queries": [query]})
        retrieved = RetrievalEvaluator(load_config(path)).retrieve()
        return [[hit.doc for hit in one.results[0].hits] for one in retrieved]

    before = found(tmp_path / "kept", "Parcels")
    assert found(tmp_path / "kept", "Batteries") == found(tmp_path / "fresh", "Batteries") != before
