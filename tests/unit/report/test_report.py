"""The report of an experiment: all of it, unrounded, whole, and without secrets; its counts, costs, rows and frames."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from contests import changed_queries, report_of
from expectations import message_of
from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from golden_report import GOLDEN, PROMPT, fixed_report
from ragtrial.dataset.documents import read_documents
from ragtrial.errors import ReportError, RunError
from ragtrial.experiment import run_experiment
from ragtrial.report.find import find_report
from ragtrial.report.model import (
    ROWS_IN_MEMBER,
    Report,
    _member,
    load_report,
    read_numbered,
    read_rows,
    report_schema,
    write_folder,
    write_report,
    write_rows,
)
from ragtrial.report.schema import (
    COSTS,
    ContextPart,
    CostsPart,
    LatencyPart,
    QueryColumns,
    ScoredPart,
    SettingPart,
    scored_part,
)

RECIPES = {
    **DOCUMENTS,
    **{
        f"more/{number:02}.md": f"# Recipe {number}\nServe soup {number} with bread.\n\nKeep it warm for {number}."
        for number in range(24)
    },
}
TOP_K = 25


@dataclass(frozen=True)
class Written:
    """A report's folder, and the experiment that it is of."""

    experiment: Experiment
    folder: Path

    @cached_property
    def report(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "report.json").read_text(encoding="utf-8")))

    def settings(self) -> Iterator[dict[str, Any]]:
        yield from self.report["settings"]

    def rankings(self, setting: str) -> dict[str, dict[str, Any]]:
        return {row["query"]: row for row in read_rows(self.folder / "rankings" / f"{setting}.jsonl.gz")}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    experiment = write_experiment(
        tmp_path_factory.mktemp("report"),
        {**RECIPES, "empty.txt": "  "},
        retrievers={
            "small": {"kind": "dense", "top_k": TOP_K},
            "whole": {"kind": "dense", "top_k": TOP_K, "chunker": {"kind": "document"}},
            "graph": {"kind": "dense", "top_k": 40, "store": {"kind": "chroma"}},
        },
        evaluators={"graded": {"k": [3, 25]}, "order_unaware": {"k": [3]}},
        latency=True,
    )
    labels = {"prompt": PROMPT, "queries": QUERIES}
    (experiment.folder / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    return Written(experiment, run_experiment(experiment.config()).folder)


def test_a_report_is_a_folder_read_as_written_with_every_hit(written: Written) -> None:
    assert written.folder == written.experiment.folder / "results" / "kitchen" / written.report["run_id"]
    files = {path.relative_to(written.folder).as_posix() for path in written.folder.rglob("*") if path.is_file()}
    assert files == {
        "report.json",
        "config.yaml",
        "texts.jsonl.gz",
        "rankings/small.jsonl.gz",
        "rankings/whole.jsonl.gz",
        "rankings/graph.jsonl.gz",
    }
    assert list(written.report["files"]) == sorted(files - {"report.json"})
    assert (written.folder / "config.yaml").read_bytes() == written.experiment.file.read_bytes()
    schema = report_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(written.report)
    assert not Draft202012Validator(schema).is_valid({**written.report, "colour": "blue"})
    assert load_report(written.folder).model_dump(mode="json") == written.report
    values = [value for one in written.settings() for value in one["per_query"]["evaluations"]["precision@3"]]
    assert {value for value in values if value is not None} <= {0.0, 1 / 3, 2 / 3, 1.0}
    assert "0.3333333333333333" in (written.folder / "report.json").read_text(encoding="utf-8")
    for setting in written.settings():
        rows = written.rankings(setting["name"])
        assert list(rows) == [query["id"] for query in QUERIES]
        top_k = setting["parameters"]["retriever"]["top_k"]
        for row in rows.values():
            assert len(set(row["docs"])) == len(row["docs"]) == min(top_k, len(RECIPES))
        assert sum(len(row["docs"]) for row in rows.values()) == setting["counts"]["documents_kept"]


@pytest.mark.parametrize("column", ["short", "skipped", "collapsed", "passages", "evaluations"])
def test_a_report_that_lacks_a_query_of_a_setting_is_refused(column: str, written: Written, tmp_path: Path) -> None:
    report = json.loads((written.folder / "report.json").read_text(encoding="utf-8"))
    found = report["settings"][1]["per_query"]
    (next(iter(found[column].values())) if column == "evaluations" else found[column] or [[]] * 3).pop()
    found["passages"] = [[]] * 3 if column == "passages" else None
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(ReportError, match=r"per_query of \w+ must have 4 rows, one per query"):
        load_report(tmp_path)


def test_the_texts_file_has_every_chunk_that_was_found_once_with_its_text(written: Written) -> None:
    documents = {document.id: document for document in read_documents(written.experiment.folder / "documents")}
    texts = list(read_rows(written.folder / "texts.jsonl.gz"))
    for row in texts:
        document = documents[row["doc"]]
        assert document.text[row["start"] : row["end"]] == row["text"] != ""
        assert row["title"] == document.title
    found = {
        (chunk, doc, start, end)
        for setting in written.settings()
        for row in written.rankings(setting["name"]).values()
        for chunk, doc, start, end in zip(row["chunks"], row["docs"], row["starts"], row["ends"], strict=True)
    }
    assert len(texts) == len(found)
    assert {(row["chunk"], row["doc"], row["start"], row["end"]) for row in texts} == found


def test_rankings_shorter_than_top_k_are_counted_and_no_advice_where_the_corpus_is_smaller(written: Written) -> None:
    graph = written.report["settings"][2]
    assert (graph["counts"]["queries_short"], graph["counts"]["queries_without_hits"]) == (4, 0)
    assert all(graph["per_query"]["short"])
    assert not any(written.report["settings"][0]["per_query"]["short"])
    messages = [warning["message"] for warning in written.report["warnings"]]
    assert not any("fewer than" in message for message in messages)
    assert "documents without text: 1; they are kept, and cannot be found by it." in messages
    assert len(messages) == len(set(messages))


@pytest.mark.slow
def test_the_same_experiment_gives_the_golden_report(tmp_path: Path) -> None:
    assert_close(fixed_report(tmp_path), json.loads(GOLDEN.read_text(encoding="utf-8")), "report")


def assert_close(made: Any, golden: Any, place: str) -> None:
    """Equal, but for floating-point numbers, which may differ by 1e-6."""
    assert type(made) is type(golden), place
    if isinstance(made, dict):
        assert list(made) == list(golden), place
        for key in made:
            assert_close(made[key], golden[key], f"{place}.{key}")
    elif isinstance(made, list):
        assert len(made) == len(golden), place
        for index, (one, other) in enumerate(zip(made, golden, strict=True)):
            assert_close(one, other, f"{place}[{index}]")
    elif isinstance(made, float):
        assert made == pytest.approx(golden, abs=1e-6), place
    else:
        assert made == golden, place


@pytest.fixture
def report(written: Written) -> Report:
    return load_report(written.folder)


def test_a_failed_write_or_folder_is_an_error_and_the_report_before_stays(report: Report, tmp_path: Path) -> None:
    folder = write_report(report, tmp_path, {"small": [{"query": "rye"}]}, [], "experiment: kitchen\n").folder
    later = report.model_copy(update={"run_id": "20990101T000000Z-000000"})
    with pytest.raises(ValueError, match="Unable to serialize unknown type"):
        write_report(later, tmp_path, {"small": [{"score": object()}]}, [], "")
    assert sorted(path.name for path in folder.parent.iterdir()) == sorted([folder.name, "latest"])
    assert (folder.parent / "latest").read_text() == f"{folder.name}\n"
    (tmp_path / "results").write_text("a file, not a folder")
    assert message_of(RunError, write_report, report, tmp_path / "results", {}, [], "") == (
        f"{tmp_path / 'results' / 'kitchen' / report.run_id}: cannot be written: Not a directory. Finished work is "
        "cached; free space or set output.directory, and run the same command again."
    )


NEXT = "Update ragtrial, or make it again with the command that wrote it."


def test_newer_reports_and_links_out_of_the_folder_are_not_read(written: Written, tmp_path: Path) -> None:
    newer = {**written.report, "schema_version": 3, "something": "new"}
    (tmp_path / "report.json").write_text(json.dumps(newer, indent=1), encoding="utf-8")
    said = message_of(ReportError, load_report, tmp_path)
    message = "is damaged, or of another version: schema_version: Input should be 2."
    assert said == f"{tmp_path / 'report.json'}: {message} {NEXT}"
    folder = shutil.copytree(written.folder, tmp_path / "copy")
    (folder / "texts.jsonl.gz").unlink()
    (folder / "texts.jsonl.gz").symlink_to(written.folder / "texts.jsonl.gz")
    with pytest.raises(ReportError, match=r"outside of its folder; it is not read\.$"):
        load_report(folder).texts(["any"])


SECRET = "tell-no-one-c0ffee"


def test_a_secret_of_the_environment_is_nowhere_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITCHEN_KEY", SECRET)
    monkeypatch.setenv("KITCHEN_FOLDER", SECRET)
    own = {"kind": "custom", "function": "embedding:embed", "version": "2-${KITCHEN_KEY}"}
    broken = {**own, "function": "embedding:no_vectors"}
    experiment = write_experiment(
        tmp_path,
        embedder={
            "kind": "custom",
            "function": "embedding:embed",
            "version": "${KITCHEN_KEY}",
            "query_prefix": "${KITCHEN_KEY:-nothing} ",
        },
        retrievers={
            "plain": {"kind": "dense", "top_k": 3},
            "own": {"kind": "dense", "top_k": 3, "embedder": own},
            "broken": {"kind": "dense", "top_k": 3, "embedder": broken},
        },
        workspace="${KITCHEN_FOLDER}",
        output={"directory": "results"},
    )
    with (tmp_path / "embedding.py").open("a") as module:
        module.write("\n\ndef no_vectors(texts):\n    return None\n")
    report = run_experiment(experiment.config("evaluators.primary_metric=${NO_SUCH_NAME:-ndcg@3}"))
    assert (tmp_path / SECRET).is_dir()
    assert [failure.name for failure in report.failures] == ["broken"]
    assert report.settings[0].parameters["embedder"]["version"] == "${KITCHEN_KEY}"
    assert report.settings[1].parameters["embedder"]["version"] == "2-${KITCHEN_KEY}"
    assert report.config["workspace"] == "${KITCHEN_FOLDER}"
    files = [path for path in report.folder.parent.rglob("*") if path.is_file()]
    assert len(files) == 6
    for path in files:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert SECRET.encode() not in content, path
        assert SECRET not in str(path.relative_to(tmp_path))


@pytest.mark.parametrize("name", ["../../../secret", "a/../../../b", "nul\0"])
def test_a_name_that_leads_out_of_the_folder_is_not_read(report: Report, name: str) -> None:
    with pytest.raises(ReportError, match=r"outside of its folder; it is not read\.$"):
        report.ranking_file(name)


def test_latest_is_read_from_its_file_wherever_that_is(tmp_path: Path) -> None:
    """The file decides, also where the folder is not below the results, and where a newer run is beside it."""
    for run in ("20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"):
        (tmp_path / "moved" / run).mkdir(parents=True)
        (tmp_path / "moved" / run / "report.json").write_text("{}")
    (tmp_path / "moved" / "latest").write_text("20260101T000000Z-aaaaaa\n")
    found = find_report(str(tmp_path / "moved" / "latest"), tmp_path / "results")
    assert found == tmp_path / "moved" / "20260101T000000Z-aaaaaa"


ROWS = [
    {"number": number, "text": f"row {number}\u2028\r\n" * (number % 7)} for number in range(3 * ROWS_IN_MEMBER + 5)
]
VALUES = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rows") / "rows.jsonl.gz"
    write_rows(made, iter(ROWS))
    return made


@settings(max_examples=50, deadline=None)
@given(numbers=st.sets(st.integers(0, len(ROWS) - 1)).map(sorted))
def test_rows_are_read_by_number(numbers: list[int], path: Path) -> None:
    assert list(read_numbered(path, numbers)) == [ROWS[number] for number in numbers]


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=5))
def test_rows_of_any_json_come_back(rows: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory) -> None:
    made = tmp_path_factory.mktemp("any") / "rows.jsonl.gz"
    write_rows(made, rows)
    assert list(read_rows(made)) == list(read_numbered(made, range(len(rows)))) == rows


def test_only_wanted_rows_are_read_and_one_that_is_not_there_is_damage(path: Path, tmp_path: Path) -> None:
    """Damage in the first member is met by whoever reads it, and by nobody else."""
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 0xFF
    (tmp_path / "damaged.jsonl.gz").write_bytes(damaged)
    last = len(ROWS) - 1
    assert list(read_numbered(tmp_path / "damaged.jsonl.gz", [last])) == [ROWS[last]]
    with pytest.raises(ReportError, match=r"damaged\.jsonl\.gz: cannot be read"):
        list(read_numbered(tmp_path / "damaged.jsonl.gz", [0]))
    with pytest.raises(ReportError, match=r"damaged\.jsonl\.gz: cannot be read"):
        list(read_rows(tmp_path / "damaged.jsonl.gz"))
    with pytest.raises(ReportError, match="cannot be read"):
        list(read_numbered(path, [len(ROWS)]))
    with pytest.raises(ReportError, match="cannot be read"):
        list(read_numbered(path, [10 * len(ROWS)]))


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(b"{}\n", mtime=0)])
def test_a_file_that_was_not_written_by_ragtrial_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=r"rows\.jsonl\.gz: cannot be read"):
        list(read_numbered(path, [0]))


BEYOND: dict[str, tuple[Callable[[], bytes], int | None, str]] = {
    "more than is stated": (lambda: _member(b'{"a":1}\n' * 3), 10, "holds more than 10 bytes"),
    "a second part": (lambda: _member(b" " * 2**19 + b"\n") * 2, 2**19, "holds more than"),
    "one long line": (lambda: _member(b" " * (2**26 + 2**21)), 2**40, "a line of more than 67,108,864 bytes"),
    "a row nested deeply": (lambda: _member(b'{"a":' + b"[" * 100_000 + b"\n"), None, "recursion limit exceeded"),
    "an infinite number": (lambda: _member(b'{"scores":[[1e999]]}\n'), None, "1e999, which is not finite"),
    "an endless integer": (lambda: _member(b'{"a":' + b"9" * 5000 + b"}\n"), None, "number out of range"),
    "no number": (lambda: _member(b'{"a":NaN}\n'), None, "cannot be read"),
    "data that is cut": (lambda: _member(b'{"a":1}\n' * 9)[:-9], None, "ends in the middle of its gzip data"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_rows_beyond_their_budget_are_an_error_that_says_why(name: str, tmp_path: Path) -> None:
    make, size, reason = BEYOND[name]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(make())
    with pytest.raises(ReportError, match=reason):
        list(read_rows(path, size))
    with pytest.raises(ReportError, match=reason):
        list(read_numbered(path, [0], size))


def test_what_was_written_is_within_what_was_stated(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    size = write_rows(path, ROWS)
    assert size == len(gzip.decompress(path.read_bytes()))
    assert list(read_rows(path, size)) == ROWS == list(read_numbered(path, range(len(ROWS)), size))
    with pytest.raises(ReportError, match="holds more than"):
        list(read_rows(path, size - 1))


@pytest.mark.parametrize(("counts", "sentence"), [
    ((62, 62, 0, 0, 0), "62 questions"),
    ((1, 1, 0, 0, 0), "1 question"),
    ((59, 62, 3, 0, 0), "62 questions (59 scored; 3 have no answer in the documents)"),
    ((61, 62, 1, 0, 0), "62 questions (61 scored; 1 has no answer in the documents)"),
    ((60, 62, 0, 2, 0), "62 questions (60 scored; 2 have no label that counts)"),
    ((61, 62, 0, 1, 0), "62 questions (61 scored; 1 has no label that counts)"),
    ((60, 62, 0, 0, 2), "62 questions (60 scored; 2 could not be searched)"),
    ((1_000, 1_006, 3, 2, 1),
     "1,006 questions (1,000 scored; 3 have no answer in the documents; 2 have no label that counts; "
     "1 could not be searched)"),
    ((0, 2, 0, 2, 0), "2 questions (0 scored; 2 have no label that counts)"),
    ((61, 62, 0, 0, 0, 1), "62 questions (61 scored; 1 has no score)"),
    ((60, 62, 0, 0, 0, 2), "62 questions (60 scored; 2 have no score)"),
])  # fmt: skip
def test_the_sentence_gives_each_reason_there_is(counts: tuple[int, ...], sentence: str) -> None:
    names = ("scored", "questions", "unanswerable", "unlabelled", "failed", "missing")
    assert ScoredPart(**dict(zip(names, counts, strict=False))).sentence == sentence


def test_a_written_report_has_the_counts_the_threshold_and_the_direction_as_fields(tmp_path: Path) -> None:
    scores = {"a": [0.5, None, None, None], "b": [0.4, None, None, None]}
    report = changed_queries(
        report_of(scores, "unjudged@3", relevance_threshold=2), q2={"tags": ["unanswerable"]}, q3={"relevant_docs": []}
    )
    skipped = [
        one.model_copy(update={"per_query": one.per_query.model_copy(update={"skipped": [False, False, False, True]})})
        for one in report.settings
    ]
    write_folder(report.model_copy(update={"settings": skipped}), tmp_path / "report", {}, [], {})
    kept = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert kept["scored"] == {"scored": 1, "questions": 4, "unanswerable": 1, "unlabelled": 1, "failed": 1}
    assert kept["relevance_threshold"] == 2
    assert kept["metrics"]["unjudged@3"]["better"] == "lower"
    assert report.ranked_settings()[0].name == "b"
    part = scored_part(report.queries, [False, True, True, True], [False] * 4, have_labels=False)
    assert (part.scored, part.unlabelled, part.missing) == (3, 0, 1)


def setting(parameters: dict[str, Any] | None = None, **costs: float) -> SettingPart:
    known = {"embedding_seconds": 2.0, "indexing_seconds": 3.0, "index_bytes": 4000, **costs}
    return SettingPart(
        name="one", fingerprint="", parameters=parameters or {}, scores={}, counts={}, index={}, health=None,
        audit=None, timings={}, context=[ContextPart(k=10, characters=900.0, tokens=None)],
        per_query=QueryColumns(evaluations={}, short=[], skipped=[], collapsed=[]),
        costs=CostsPart.model_validate(known),
        latency=LatencyPart(p50=0.1, p95=0.2, p99=0.3, n=50, machine="", date=""),
    )  # fmt: skip


def test_each_cost_has_its_value() -> None:
    one = setting(embedding_cost=5.0, query_cost=6.0)
    assert {name: one.cost(name) for name in (*COSTS, "characters@10", "tokens@10", "characters@5")} == {
        "latency.p50": 0.1, "latency.p95": 0.2, "latency.p99": 0.3, "embedding_seconds": 2.0, "indexing_seconds": 3.0,
        "index_bytes": 4000, "embedding_cost": 5.0, "query_cost": 6.0, "characters@10": 900.0, "tokens@10": None,
        "characters@5": None,
    }  # fmt: skip


ENDPOINT = {"model": "m", "base_url": "http://localhost/v1", "price": None}


@pytest.mark.parametrize(("parameters", "embedding", "query"), [
    ({"retriever": {"kind": "bm25"}}, 0.0, 0.0),
    ({"retriever": {"kind": "dense"}, "embedder": ENDPOINT}, None, None),
    ({"retriever": {"kind": "rerank", "endpoint": ENDPOINT}, "parts": {"bm25": {}}}, 0.0, None),
    ({"retriever": {"kind": "fusion"}, "parts": {"dense": {"embedder": ENDPOINT}}}, None, None),
])  # fmt: skip
def test_costs_need_endpoint_prices(parameters: dict[str, Any], embedding: float | None, query: float | None) -> None:
    one = setting(parameters)
    assert (one.cost("embedding_cost"), one.cost("query_cost")) == (embedding, query)
