"""The report of an experiment: all of it, unrounded, whole, and without secrets."""

import gzip
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from golden_report import GOLDEN, PROMPT, fixed_report
from ragtrial.dataset.documents import read_documents
from ragtrial.errors import ReportError, RunError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report, load_report, report_schema, write_report
from ragtrial.report.rows import read_rows

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
    with pytest.raises(RunError) as caught:
        write_report(report, tmp_path / "results", {}, [], "")
    assert str(caught.value) == (
        f"{tmp_path / 'results' / 'kitchen' / report.run_id}: cannot be written: Not a directory. Finished work is "
        "cached; free space or set output.directory, and run the same command again."
    )


NEXT = "Update ragtrial, or make it again with the command that wrote it."


def test_newer_reports_and_links_out_of_the_folder_are_not_read(written: Written, tmp_path: Path) -> None:
    newer = {**written.report, "schema_version": 3, "something": "new"}
    (tmp_path / "report.json").write_text(json.dumps(newer, indent=1), encoding="utf-8")
    with pytest.raises(ReportError) as caught:
        load_report(tmp_path)
    message = "is damaged, or of another version: schema_version: Input should be 2."
    assert str(caught.value) == f"{tmp_path / 'report.json'}: {message} {NEXT}"
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
