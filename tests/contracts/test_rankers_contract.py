"""What every retriever and refiner owes, from the moment it is registered."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chroma_databases import Item, write_collection
from experiments import DOCUMENTS, RUN, Experiment, write_experiment
from forked import forked
from ragtrial import run_experiment
from ragtrial.components.interfaces import NOT_RANKING, REACHING, RETRIEVERS, Ranker
from ragtrial.components.refiners.base import REFINERS, Refiner
from ragtrial.config.settings import Setting
from ragtrial.pipeline.ranking_stage import open_setting
from ragtrial.pipeline.retrieval import Depth, SettingRankings
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.progress import Listener, Progress
from ragtrial.rankings import PADDING
from ragtrial.records import Question
from tiny_models import write_tiny_cross_encoder, write_tiny_late_encoder, write_tiny_sparse_encoder

FUNCTION = '''
"""Documents by the words that they share with a query; every call is noted."""

from pathlib import Path

HERE = Path(__file__).parent


def words(text):
    return {word.strip(".,?#").lower() for word in text.split()}


def find(queries, top_k, bonus=0):
    with (HERE / "asked").open("a") as asked:
        asked.write("call\\n")
    texts = {path.relative_to(HERE / "documents").as_posix(): path.read_text()
             for path in sorted((HERE / "documents").rglob("*.*"))}
    found = []
    for query in queries:
        scores = {name: len(words(query) & words(text)) + bonus for name, text in texts.items()}
        best = sorted(scores, key=lambda name: (-scores[name], name))
        found.append([{"doc": name, "score": scores[name]} for name in best[:top_k]])
    return found
'''
RUN_FILE = "".join(
    f"{query} Q0 {document} {rank} {9 - rank}.5 made\n"
    for query in ("rye", "keep", "smooth", "coffee", "How", "???")
    for rank, document in enumerate(sorted(DOCUMENTS, reverse=query < "o"), 1)
)


@dataclass(frozen=True)
class Case:
    """Options of a kind; ``other`` has another value for each that changes what is found, with what that takes.

    ``free`` are options that change no ranking, or that are hashed by what they lead to.
    """

    kind: str
    options: Mapping[str, Any]
    other: Mapping[str, Mapping[str, Any]]
    free: frozenset[str] = field(default=frozenset())


CHUNKS = {"kind": "fixed", "size": 200, "overlap": 0, "unit": "characters"}
FUSED: Mapping[str, Mapping[str, Any]] = {
    "method": {"method": "weighted"},
    "normalisation": {"method": "weighted", "normalisation": "z_score"},
    "rank_constant": {"rank_constant": 7},
    "candidates": {"candidates": 3},
}
ENCODED: Mapping[str, Mapping[str, Any]] = {
    "model": {"model": "another"}, "revision": {"revision": "other"}, "precision": {"precision": "bfloat16"},
    "max_length": {"max_length": 20},
}  # fmt: skip
CASES = {
    "dense": Case("dense", {}, {"collection": {"collection": {"name": "docs", "path": "chroma"}}},
                  free=frozenset({"where", "where_document", "filter"})),
    "collection": Case("dense", {"collection": {"name": "docs", "path": "chroma"}},
                       {"collection": {"collection": {"name": "more", "path": "chroma"}},
                        "where": {"where": {"lang": "en"}}, "where_document": {"where_document": {"$contains": "rye"}}},
                       free=frozenset({"filter"})),  # Chroma has none
    "bm25": Case("bm25", {}, {"method": {"method": "atire"}, "k1": {"k1": 0.4}, "b": {"b": 0.1},
     "delta": {"method": "bm25+", "delta": 0.2}, "stemmer": {"stemmer": "none"}, "stop_words": {"stop_words": "none"},
     "title_weight": {"title_weight": 3}}),
    "sparse": Case("sparse", {"model": "sparse", "device": "cpu"}, ENCODED, free=frozenset({"device", "batch_size"})),
    "late": Case("late", {"model": "late", "device": "cpu"}, ENCODED, free=frozenset({"device", "batch_size"})),
    "late_rerank": Case("late_rerank", {"inputs": "dense", "model": "late", "device": "cpu", "candidates": 5},
     {**ENCODED, "candidates": {"candidates": 4}}, free=frozenset({"device", "batch_size"})),
    "custom": Case("custom", {"function": "finder:find"},
     {"function": {"function": "finder:words"}, "options": {"options": {"bonus": 1}}, "document": {"document": "id"},
     "on_error": {"on_error": "skip"}}, free=frozenset({"batch_size", "version"})),
    "run_file": Case("run_file", {"path": "run.trec"},
     {"path": {"path": "other.trec"}, "form": {"form": "trec"}, "name": {"name": "made"}}),
    "fusion": Case("fusion", {"inputs": ["dense", "bm25"]}, {**FUSED, "weights": {"weights": [2, 1]}}),
    "expand": Case("expand", {"inputs": "dense", "templates": ["About {query}"]},
     {**FUSED, "templates": {"templates": ["A recipe for {query}"]}, "phrasings": {"phrasings": False},
      "question": {"question": False}, "endpoint": {"endpoint": {"model": "m"}},
      "prompt": {"endpoint": {"model": "m"}, "prompt": "answer"},
      "lines": {"endpoint": {"model": "m"}, "lines": False}}),
    "rerank": Case("rerank", {"inputs": "dense", "model": "reranker", "device": "cpu", "candidates": 5},
     {**ENCODED, "title": {"title": False}, "candidates": {"candidates": 4},
      "endpoint": {"endpoint": {"model": "m", "base_url": "http://localhost/v1"}, "model": "m", "device": None}},
     free=frozenset({"device", "batch_size"})),
    "mmr": Case("mmr", {"inputs": "dense"}, {"diversity": {"diversity": 0.9}, "candidates": {"candidates": 3}}),
    "parent": Case("parent", {"inputs": "dense", "returns": "neighbours"},
     {"returns": {"returns": "document"}, "neighbours": {"neighbours": 2}, "candidates": {"candidates": 3}}),
    "parent-chunks": Case("parent", {"inputs": "dense", "returns": "chunk", "chunker": CHUNKS},
     {"returns": {"returns": "document"}, "candidates": {"candidates": 3}}, free=frozenset({"neighbours"})),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)

KINDS = {**dict(RETRIEVERS.members()), **dict(REFINERS.members())}
ASKED = [
    "How long do I bake rye bread?", "???", "the of and", "Ｒｙｅ\u200b brëad\u0301 \U0001f35e \u202e",
    "パンはどのくらい焼きますか", "How long do I bake rye bread?", "soup " * 400, "x",
]  # fmt: skip


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory, minilm_folder: Path) -> Experiment:
    """An experiment with every case among its retrievers."""
    folder = tmp_path_factory.mktemp("contract")
    write_tiny_cross_encoder(folder / "reranker", minilm_folder, seed=1)
    write_tiny_sparse_encoder(folder / "sparse", minilm_folder, seed=1)
    write_tiny_late_encoder(folder / "late", minilm_folder, seed=1)
    items = [Item(name, text, {"lang": "en"}) for name, text in DOCUMENTS.items()]
    write_collection(folder / "chroma", items)
    entries = {name: {"kind": case.kind, "top_k": 3, **case.options} for name, case in CASES.items()}
    made = write_experiment(folder, retrievers=entries)
    (folder / "finder.py").write_text(FUNCTION)
    (folder / "run.trec").write_text(RUN_FILE)
    return made


@pytest.fixture(scope="module")
def run(kitchen: Experiment) -> Run:
    return Run.prepare(kitchen.config())


def setting_of_case(run: Run, name: str) -> Setting:
    return next(one for one in run.settings if one.name == name)


SHALLOW = Depth(candidates=4, units=3)


def ranked(
    run: Run, name: str, questions: Sequence[Question], depth: Depth = SHALLOW, *, is_fresh: bool = False
) -> SettingRankings:
    """What a case finds, put to work by itself, with all of its parts."""
    corpus = run.corpus
    stages = corpus.stages(setting_of_case(run, name))
    with open_setting(corpus.resources, stages, corpus.runner, "document", is_fresh=is_fresh) as opened:
        return opened.ranked(questions, depth)


Row = list[tuple[str, int, int, float]]


def hits_of(found: SettingRankings) -> list[Row]:
    """Document, start, end and score of each hit, best first."""
    units, rankings = found.candidates.units, found.candidates.rankings
    rows = []
    for codes, scores in zip(rankings.codes.tolist(), rankings.scores.tolist(), strict=True):
        hits = [(code, score) for code, score in zip(codes, scores, strict=True) if code != PADDING]
        rows.append([(units.document_id(code), int(units.start[code]), int(units.end[code]), score)
                     for code, score in hits])  # fmt: skip
    return rows


def documents_of(found: SettingRankings) -> list[list[str]]:
    units = found.candidates.units
    return [[units.document_id(code) for code in row if code != PADDING] for row in found.units.tolist()]


def questions_of(run: Run) -> list[Question]:
    return [*run.questions, *(Question(text) for text in ASKED)]


def near(row: Row) -> list[Any]:
    """A row whose scores may differ in the last bits: a model's may, with what else is in its batch."""
    return [(document, start, end, pytest.approx(score, rel=1e-4)) for document, start, end, score in row]


def test_every_kind_has_a_case_that_finds_nothing_or_always_the_nearest() -> None:
    assert {case.kind for case in CASES.values()} == set(KINDS)
    assert {case.kind for name, case in CASES.items() if name in NOTHING} | ALWAYS_FIND | set(REFINERS.names()) == set(
        KINDS
    )


@pytest.mark.slow
@every_case
def test_the_same_questions_find_the_same(run: Run, name: str) -> None:
    questions = questions_of(run)
    first, second = (ranked(run, name, questions) for _ in range(2))
    assert hits_of(first) == hits_of(second)
    assert documents_of(first) == documents_of(second)
    assert dict(first.candidates.facts) == dict(second.candidates.facts)
    assert any(hits_of(first)), "or the test says nothing"


@pytest.mark.slow
@every_case
@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_question_alone_finds_what_it_finds_among_others(run: Run, name: str, is_fresh: bool) -> None:
    questions = questions_of(run)
    together = hits_of(ranked(run, name, questions))
    for question, row in zip(questions, together, strict=True):
        (alone,) = hits_of(ranked(run, name, [question], is_fresh=is_fresh))
        assert alone == near(row)


@every_case
def test_what_is_found_with_less_depth_is_where_the_deeper_begins(run: Run, name: str) -> None:
    questions = questions_of(run)
    deep = ranked(run, name, questions, Depth(candidates=10, units=6))
    for depth in (1, 2, 5):
        shallow = ranked(run, name, questions, Depth(candidates=depth, units=depth))
        if name == "collection":  # Chroma orders equal distances otherwise at another depth
            for row, deeper in zip(hits_of(shallow), hits_of(deep), strict=True):
                expected = pytest.approx([score for *_, score in deeper[:depth]], rel=1e-4, abs=1e-6)
                assert [score for *_, score in row] == expected
            continue
        assert hits_of(shallow) == [near(row)[:depth] for row in hits_of(deep)]
        assert documents_of(shallow) == [row[:depth] for row in documents_of(deep)]


@every_case
def test_rows_are_sound(run: Run, name: str) -> None:
    """Codes of units, each once; then padding; scores that are numbers and never rise."""
    questions = questions_of(run)
    found = ranked(run, name, questions, Depth(candidates=10, units=6))
    rankings, library = found.candidates.rankings, run.corpus.library
    assert rankings.codes.dtype == "int32"
    assert rankings.scores.dtype == "float32"
    assert len(rankings) == len(found.candidates.skipped) == len(questions)
    assert not found.candidates.skipped.any()
    for codes, scores in zip(rankings.codes.tolist(), rankings.scores.tolist(), strict=True):
        length = sum(code != PADDING for code in codes)
        assert all(0 <= code < len(found.candidates.units) for code in codes[:length])
        assert len(set(codes[:length])) == length
        assert scores[:length] == sorted(scores[:length], reverse=True)
        assert all(score == score for score in scores[:length]), "a score is NaN"
        assert all(score != score for score in scores[length:]), "padding has a score"
    for row in hits_of(found):
        assert len({hit[:3] for hit in row}) == len(row)
        for document, start, end, _ in row:
            assert 0 <= start < end <= int(library.sizes[library.positions[document]])
    assert all(len(set(row)) == len(row) for row in documents_of(found))


NOTHING: Mapping[str, Mapping[str, Any]] = {
    "bm25": {},
    "custom": {"function": "finder:nothing"},
    "run_file": {"path": "empty.trec"},
}
"""Options by which a retriever finds nothing for ``zebra``; the others always find what is nearest."""

ALWAYS_FIND = {"dense", "sparse", "late"}


@pytest.fixture(scope="module")
def finding_nothing(kitchen: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Every refiner over a search by words, and every retriever that may find nothing."""
    folder = shutil.copytree(kitchen.folder, tmp_path_factory.mktemp("nothing") / "kitchen")
    with (folder / "finder.py").open("a") as file:
        file.write("\n\ndef nothing(queries, top_k):\n    return [[] for _ in queries]\n")
    (folder / "empty.trec").write_text(f"rye Q0 {min(DOCUMENTS)} 1 9.5 made\n")
    entries: dict[str, dict[str, Any]] = {"words": {"kind": "bm25"}, "words2": {"kind": "bm25", "k1": 0.4}}
    for name, case in CASES.items():
        inputs = {"inputs": ["words", "words2"] if case.kind == "fusion" else "words"}
        if case.kind in REFINERS or name in NOTHING:
            more = inputs if case.kind in REFINERS else NOTHING[name]
            entries[name] = {"kind": case.kind, "top_k": 3, **case.options, **more}
    return Run.prepare(write_experiment(folder, retrievers=entries).config())


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.kind not in ALWAYS_FIND or name in NOTHING]
)
@pytest.mark.parametrize(
    "texts", [["zebra"], ["zebra", "How do I bake rye bread?"], ["zebra", "zebra crossing", "zebra"]]
)
def test_a_search_that_finds_nothing_is_an_empty_row(finding_nothing: Run, name: str, texts: list[str]) -> None:
    found = ranked(finding_nothing, name, [Question(text) for text in texts])
    rows = hits_of(found)
    assert [row for text, row in zip(texts, rows, strict=True) if text.startswith("zebra")] == [[]] * (
        len(texts) - ("bread?" in texts[-1])
    )
    assert documents_of(found)[0] == []
    if name not in NOTHING:
        assert bool(rows[-1]) == ("bread?" in texts[-1])
    list(setting_of_case(finding_nothing, name).retriever.warnings(name, found.candidates.facts))


@every_case
def test_no_questions_find_nothing_and_facts_are_json_values(run: Run, name: str) -> None:
    found = ranked(run, name, [])
    assert (len(found.candidates.rankings), found.candidates.skipped.shape, documents_of(found)) == (0, (0,), [])
    retriever = setting_of_case(run, name).retriever
    asked = [retriever.asked(question) for question in questions_of(run)]
    inputs = retriever.hashed_content(run.corpus.resources.digest)
    assert json.loads(json.dumps([asked, inputs])) == [asked, inputs]
    facts = dict(ranked(run, name, questions_of(run)).candidates.facts)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert all(value is None or isinstance(value, int | float | str) for value in facts.values())
    setting = setting_of_case(run, name)
    for warning in setting.retriever.warnings(name, facts):
        assert warning.message.startswith(f"{name}: ")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind in REFINERS])
def test_a_question_that_a_part_skipped_is_skipped(run: Run, name: str) -> None:
    """Of several wordings, one that was skipped is enough."""
    setting, questions = setting_of_case(run, name), run.questions[:2]
    refiner = setting.retriever
    assert isinstance(refiner, Refiner)
    wordings = [list(refiner.wordings(question)) for question in questions]
    part = ranked(run, "dense", list(chain(*wordings))).candidates
    skipped = np.arange(len(part.rankings)) == len(wordings[0]) - 1
    part.rankings.codes[skipped], part.rankings.scores[skipped] = PADDING, np.nan
    parts = [replace(part, skipped=skipped)] * len(refiner.parts)
    found = refiner.open(run.corpus.context(setting)).refine(questions, parts)
    assert found.skipped.tolist() == [True, False]
    assert found.rankings.lengths.tolist()[0] == 0 < found.rankings.lengths.tolist()[1]


def made(kitchen: Experiment, name: str, /, **options: object) -> Ranker:
    """The options of a case with others laid over them."""
    case = CASES[name]
    located = {key: str(kitchen.folder / value) if key == "path" else value for key, value in case.options.items()}
    return KINDS[case.kind].model_validate({"kind": case.kind, **located, **options})


@every_case
def test_the_identity_is_what_changes_rankings(kitchen: Experiment, name: str) -> None:
    case = CASES[name]
    own = made(kitchen, name)
    fields = set(type(own).model_fields) - {*NOT_RANKING, *REACHING, "kind"}
    assert set(case.other) | case.free == fields, "every option has another value in the table, or is free"
    assert not {*NOT_RANKING, *REACHING} & own.hashed_options().keys()
    assert json.loads(json.dumps(own.hashed_options())) == own.hashed_options()
    assert made(kitchen, name, top_k=7, score=False).hashed_options() == own.hashed_options()
    for option, values in case.other.items():
        before = {key: value for key, value in values.items() if key != option}
        assert made(kitchen, name, **values).hashed_options() != made(kitchen, name, **before).hashed_options(), option


class Steps(Progress):
    """The stages of a run: name, total, and how far it came."""

    def __init__(self) -> None:
        self.stages, self._open = list[tuple[str, int | None, int]](), list[tuple[str, int | None, int]]()

    def begin(self, stage: str, total: int | None, unit: str) -> None:
        self._open.append((stage, total, 0))

    def advance(self, count: int) -> None:
        stage, total, done = self._open.pop()
        self._open.append((stage, total, done + count))

    def finish(self) -> None:
        self.stages.append(self._open.pop())


@pytest.mark.slow
def test_a_second_run_loads_no_model_and_searches_nothing(kitchen: Experiment, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("workspace", "asked")
    new = Experiment(shutil.copytree(kitchen.folder, tmp_path / "new", ignore=ignored))

    def left() -> tuple[object, ...]:
        return new.stages(), new.embedded(), (new.folder / "asked").read_text()

    steps = Steps()
    run_experiment(new.config(), RunOptions(listener=Listener(steps)))
    assert [step for step in steps.stages if step[1] not in (None, step[2])] == []
    assert len(steps.stages) > 20
    assert {"torch", "Stemmer"} <= sys.modules.keys()
    before = left()
    again = forked(f"{RUN}; print([name for name in ('torch', 'Stemmer') if name in sys.modules])", new.file)
    assert (again.code, again.out) == (0, "[]\n"), again.err
    assert left() == before


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_described_and_every_kind_is_in_the_documentation(kind: str, root: Path) -> None:
    options = KINDS[kind].model_json_schema()["properties"]
    undescribed = [name for name, one in options.items() if not one.get("description")]
    assert not undescribed
    pages = [path.read_text(encoding="utf-8") for path in [root / "README.md", *(root / "docs").glob("*.md")]]
    assert any(f"kind: {kind}" in page for page in pages)
