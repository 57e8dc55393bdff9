"""A Chroma collection that is there already is searched as it is, in a folder or on a server."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chroma_databases import Item, chroma_server, word_counts, write_collection
from experiments import DOCUMENTS, QUERIES, Experiment, python, write_experiment
from ragtrial import run_experiment
from ragtrial.components.interfaces import Candidates
from ragtrial.engines import open_collection
from ragtrial.engines.chroma import USES_GRAPH, ChromaCollection, ChromaCollectionOptions
from ragtrial.pipeline.run import Run
from ragtrial.records import Question
from ragtrial.report.model import Report
from report_hits import hits_of

pytestmark = pytest.mark.slow

ITEMS = [
    Item(
        f"{name}:{number}",
        part,
        {"source": f"/srv/kitchen/{name}", "about": "soup" if "soup" in name else "other", "from": text.index(part),
         "to": text.index(part) + len(part)},
    )
    for name, text in DOCUMENTS.items()
    for number, part in enumerate(text.split("\n\n"))
]  # fmt: skip
"""As loaders of other libraries leave them: ids of their own, the document's path in the metadata."""

QUESTIONS = [Question(query["text"]) for query in QUERIES]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of items, and one of items without texts."""
    folder = tmp_path_factory.mktemp("chroma") / "db"
    write_collection(folder, ITEMS)
    write_collection(folder, [Item(name, None) for name in DOCUMENTS], "names")
    return folder


@pytest.fixture(scope="module")
def server(database: Path) -> Iterator[Mapping[str, Any]]:
    """Where a server of a copy of the database is."""
    folder = shutil.copytree(database, database.with_name("served"))
    with chroma_server(folder) as port:
        yield {"url": f"http://127.0.0.1:{port}"}


def experiment(folder: Path, collection: Mapping[str, Any], **options: object) -> Experiment:
    """One whose only retriever is over the collection; ``unit`` and ``queries`` are of the experiment."""
    changes: dict[str, Any] = {name: options.pop(name) for name in ("queries", "evaluators") if name in options}
    embedder = {"kind": "custom", "function": "embedding:embed", "normalize": False}
    given = {"name": "docs", **collection}
    retriever = {"kind": "dense", "top_k": 3, "collection": given, **options}
    if given["name"] != "names":
        given.setdefault("document", "source")
    return write_experiment(folder, retrievers={"prod": retriever}, embedder=embedder, **changes)


def reported(made: Experiment) -> Report:
    return run_experiment(made.config())


def ranked(report: Report) -> list[list[str]]:
    return [[hit.doc for hit in hits] for hits in hits_of(report, report.settings[0].name).values()]


def found(made: Experiment, depth: int = 3, questions: list[Question] = QUESTIONS) -> Candidates:
    """What the retriever itself answers."""
    evaluator = Run.of(made.config())
    (setting,) = evaluator.settings
    return setting.retriever.open(evaluator.corpus.context(setting)).search(questions, depth)  # type: ignore[attr-defined, no-any-return]  # a retriever


def rows(candidates: Candidates) -> list[list[tuple[str, int, int]]]:
    """Document and characters of each hit."""
    units = candidates.units
    return [
        [(units.document_id(code), int(units.start[code]), int(units.end[code])) for code in row if code >= 0]
        for row in candidates.rankings.codes.tolist()
    ]


def test_folders_and_servers_give_the_nearest_items(tmp_path: Path, database: Path, server: Mapping[str, Any]) -> None:
    of_folder = reported(experiment(tmp_path / "folder", {"path": str(database)}))
    of_server = reported(experiment(tmp_path / "server", server))
    expected = []
    items = np.array([word_counts(str(item.text)) for item in ITEMS])
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    for scores in np.array([word_counts(question.text) for question in QUESTIONS]) @ items.T:
        order = sorted(range(len(ITEMS)), key=lambda place: -scores[place])
        names = [ITEMS[place].id.partition(":")[0] for place in order]
        expected.append(list(dict.fromkeys(names))[:3])
    assert ranked(of_folder) == ranked(of_server) == expected
    assert of_folder.settings[0].scores == of_server.settings[0].scores


def test_the_report_says_what_was_searched_and_that_it_was_checked(tmp_path: Path, server: Mapping[str, Any]) -> None:
    (setting,) = reported(experiment(tmp_path, server)).settings
    identity = str(setting.facts["collection_id"])
    assert len(identity) == 36
    assert setting.facts == {"collection": "docs", "collection_id": identity, "items": 11, "dimension": 32,
                             "space": "cosine", "keeps_graph": False, "checked": "ok (cosine 1.0000)",
                             "vectors_agree": True, "items_located": 8, "items_as_whole_documents": 0,
                             "items_at_the_same_place": 0, "normalised": False}  # fmt: skip
    assert (setting.index, setting.health) == ({}, None)
    assert setting.audit is not None
    audit = setting.audit.model_dump(exclude={"lost"})
    assert audit == {"overlap": 1.0, "lowest_overlap": 1.0, "queries": 4, "queries_that_differ": 0, "repeats": None,
                     "short_queries": 0, "used": True, "use": USES_GRAPH}  # fmt: skip
    assert "chunker" not in setting.parameters
    assert "store" not in setting.parameters


def test_a_graph_that_is_made_anew_each_time_is_told(tmp_path: Path) -> None:
    vectors = iter(np.random.default_rng(0).normal(size=(1_000, 32)))
    items = [Item(f"{number}", None, {"source": "oven.txt"}) for number in range(1_000)]
    folder = write_collection(tmp_path / "db", items, vector=lambda text: next(vectors).tolist())
    write_collection(folder, items[:999], "fewer", vector=lambda text: [1.0] * 32)
    codes = []
    for name in ("docs", "fewer"):
        made = reported(experiment(tmp_path / name, {"path": str(folder), "name": name}))
        codes.append([warning.message for warning in made.warnings if warning.code == "graph-not-kept"])
    assert codes == [
        [],
        [
            "prod: with so few items (999) Chroma keeps no graph on disk (sync_threshold): it builds a new one each "
            "time it opens the collection, with slightly different hits. The scores are those of one such graph."
        ],
    ]


def test_copies_of_folders_are_gone_when_the_process_ends(tmp_path: Path, database: Path) -> None:
    made, copies = experiment(tmp_path / "experiment", {"path": str(database)}), tmp_path / "copies"
    copies.mkdir()
    code = (
        "import sys; from pathlib import Path; from ragtrial import load_config, run_experiment;"
        "run_experiment(load_config(sys.argv[1])); print(len(list(Path(sys.argv[2]).glob('ragtrial-copy-*'))))"
    )
    done = python(code, made.file, copies, TMPDIR=str(copies))
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert list(copies.iterdir()) == []


def test_the_same_command_searches_again_only_when_the_collection_has_changed(tmp_path: Path, database: Path) -> None:
    folder = shutil.copytree(database, tmp_path / "db")
    with chroma_server(folder) as port:
        made = experiment(tmp_path / "experiment", {"url": f"http://127.0.0.1:{port}"})
        first = reported(made)
        names = {name for kind, name in made.stages() if kind == "rankings"}
        assert len(names) == 2  # those of the engine, and those of exact search
        assert ranked(reported(made)) == ranked(first)
        assert {found for kind, found in made.stages() if kind == "rankings"} == names
        collection = open_collection(ChromaCollectionOptions(url=f"http://127.0.0.1:{port}", name="docs"))
        assert isinstance(collection, ChromaCollection)
        collection.handle.update(ids=[ITEMS[0].id], metadatas=[{"about": "nothing"}])
        reported(made)
        assert len([name for kind, name in made.stages() if kind == "rankings"]) == 4


def test_a_query_has_conditions_besides_those_of_the_config(tmp_path: Path, server: Mapping[str, Any]) -> None:
    queries = [QUERIES[0], {**QUERIES[1], "where_document": {"$contains": "Blend"}},
               {**QUERIES[2], "where": {"from": {"$gt": 0}}}, {**QUERIES[3], "where": {"from": 1}}]  # fmt: skip
    made = experiment(tmp_path, server, where={"about": "soup"}, queries=queries)
    report = reported(made)
    assert [sorted(row) for row in ranked(report)] == [*[["soup/leek.md", "soup/tomato.md"]] * 3, []]
    facts = report.settings[0].facts
    assert (facts["queries_with_conditions"], facts["queries_without_items"]) == (3, 1)
    told = [warning.message for warning in report.warnings if warning.code == "conditions-without-items"]
    assert told == ["prod: queries whose where and where_document let no item of the collection through: 1."]


def test_characters_come_from_metadata_or_from_the_place_of_the_text(tmp_path: Path, server: Mapping[str, Any]) -> None:
    given = found(experiment(tmp_path / "given", {**server, "start": "from", "end": "to"}))
    begun = found(experiment(tmp_path / "begun", {**server, "start": "from"}))
    looked_for = found(experiment(tmp_path / "found", server))
    assert rows(given) == rows(looked_for) == rows(begun)
    for name, start, end in {hit for row in rows(given) for hit in row}:
        assert DOCUMENTS[name][start:end] in [item.text for item in ITEMS]
    assert (given.facts["items_located"], looked_for.facts["items_located"]) == (0, 8)


def test_items_without_texts_stand_for_their_whole_documents(tmp_path: Path, server: Mapping[str, Any]) -> None:
    made = experiment(tmp_path, {**server, "name": "names"})
    candidates = found(made, 100)
    assert all(DOCUMENTS[name] == DOCUMENTS[name][start:end] for row in rows(candidates) for name, start, end in row)
    assert [len(row) for row in rows(candidates)] == [len(DOCUMENTS)] * len(QUERIES)
    assert candidates.facts["items_as_whole_documents"] == len(DOCUMENTS)
    assert candidates.facts["checked"] == "not checked, because there is no stored text"
    told = [warning.message for warning in reported(made).warnings if warning.code == "collection-not-checked"]
    assert told == [
        "prod: whether the embedder is the one that made the collection's vectors: not checked, because there is no "
        "stored text."
    ]


def test_items_at_one_place_are_one_hit_and_others_come_after_them(tmp_path: Path) -> None:
    copies = [Item(f"copy {number}", ITEMS[0].text, ITEMS[0].metadata) for number in range(4)]
    folder = write_collection(tmp_path / "db", [*copies, *ITEMS[1:4]])
    candidates = found(experiment(tmp_path / "e", {"path": str(folder)}), 2, [Question(str(ITEMS[0].text))])
    assert rows(candidates)[0][0] == ("bread/rye.md", 0, len(str(ITEMS[0].text)))
    assert len(set(rows(candidates)[0])) == 2
    assert candidates.facts["items_at_the_same_place"] == 1
    assert candidates.rankings.scores[0, 0] == pytest.approx(1)
