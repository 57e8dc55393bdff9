"""The guides tell the truth: their configs run on the sample data with the real model, and come to what they show."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from pages import fenced
from ragtrial import Report, load_report
from ragtrial.report.schema import SettingPart
from report_hits import values_of
from scripts import run_python, run_script

GUIDES = ("chunk-size", "hybrid", "langchain", "top-k", "vector-size")
ALIKE = 0.02
"""Machines differ in the last bits of vectors, so a chunk may stand one rank higher or lower."""


@dataclass(frozen=True)
class Place:
    """A copy of the sample data and configs."""

    folder: Path
    workspace: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"COLUMNS": "160", "RAGTRIAL_WORKSPACE": str(self.workspace)}

    def run(self, command: str) -> str:
        """What a command printed that ended well."""
        done = run_script(command, self.folder, **self.variables)
        assert done.code == 0, done.err
        return done.out

    def report(self, experiment: str) -> Report:
        """The latest of an experiment."""
        results = self.folder / "results" / experiment
        return load_report(results / (results / "latest").read_text(encoding="utf-8").strip())

    def variant(self, name: str, *changes: tuple[str, str]) -> str:
        """The path of a copy of a config with other text in it."""
        text = (self.folder / "configs" / f"{name}.yaml").read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (self.folder / "configs" / f"{name}-variant.yaml").write_text(text, encoding="utf-8")
        return f"configs/{name}-variant.yaml"


@pytest.fixture(scope="module")
def place(root: Path, tmp_path_factory: pytest.TempPathFactory, shared_workspace: Path) -> Place:
    folder = tmp_path_factory.mktemp("guides")
    for name in ("configs", "data"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns(".ragtrial", "__pycache__"))
    shutil.copy(root / "prompt_queries.json", folder)
    for guide in GUIDES:  # latency takes as long as all the rest, and no guide shows it
        with (folder / "configs" / f"{guide}.yaml").open("a", encoding="utf-8") as config:
            config.write("latency: false\n")
    return Place(folder, shared_workspace)


def blocks(root: Path, guide: str, language: str) -> list[str]:
    return fenced(root / "docs" / "guides" / f"{guide}.md", language)


def tables(text: str) -> list[tuple[list[str], dict[str, list[str]]]]:
    """Of each table its header, and the cells of its rows by the first; two spaces or more stand between cells."""
    found = []
    for table in text.strip().split("\n\n"):
        head, *rows = ([*re.split(r" {2,}", line.strip())] for line in table.splitlines())
        found.append((head, {name: cells for name, *cells in rows}))
    return found


def assert_shown(shown: str, setting: SettingPart, within: float) -> None:
    """The scores of the setting in the tables of a page are its own."""
    of_setting = [(head, rows[setting.name]) for head, rows in tables(shown) if setting.name in rows]
    assert of_setting
    for head, cells in of_setting:
        is_budget = head[0].startswith("within ")
        assert setting.budget is not None or not is_budget
        scores = setting.budget.scores if setting.budget is not None and is_budget else setting.scores
        for metric, cell in zip(head[1:], cells, strict=True):
            if metric == "verdict":
                continue
            if metric == "hits":
                assert setting.budget is not None
                assert setting.budget.hits == pytest.approx(float(cell), abs=max(0.06, 20 * within))
            else:
                value, *n = cell.split()
                mean = scores[metric.replace("labelled", "judged")]
                assert mean.mean == pytest.approx(float(value), abs=0.0006 + within), (setting.name, metric)
                assert n in ([], [f"({mean.n})"])


@pytest.mark.parametrize("guide", GUIDES)
def test_what_a_guide_shows_of_its_config_stands_in_it(root: Path, guide: str) -> None:
    (shown,) = (yaml.safe_load(block) for block in blocks(root, guide, "yaml"))
    config = yaml.safe_load((root / "configs" / f"{guide}.yaml").read_text(encoding="utf-8"))
    for section, options in shown.items():
        for name, value in options.items():
            there = config[section][name]
            assert there == value or (isinstance(value, dict) and value.items() <= there.items()), (section, name)
        if section == "retrievers":
            assert set(options) == set(config[section])


def test_the_hybrid_guide_s_command_and_program_print_what_it_shows(root: Path, place: Place) -> None:
    run, show = blocks(root, "hybrid", "sh")
    place.run(run)
    report = place.report("hybrid")
    of_all, by_tag = blocks(root, "hybrid", "text")
    for setting in report.settings:
        assert_shown(of_all, setting, within=0.0 if setting.name == "bm25" else ALIKE)
    (code,) = blocks(root, "hybrid", "python")
    out = run_python(code, place.folder, **place.variables)
    ((head, expected),), ((printed_head, printed),) = tables(by_tag), tables(out)
    assert (printed_head, set(printed)) == (head, set(expected))
    for name, cells in expected.items():
        assert [float(cell) for cell in printed[name]] == pytest.approx([float(cell) for cell in cells], abs=ALIKE)
    dense, bm25 = (place.run(line) for line in show.splitlines())
    found = [re.findall(r"^ +\d+  .*hub/hub-power-supply\.md", text, re.MULTILINE) for text in (dense, bm25)]
    assert [bool(hits) and int(hits[0].split()[0]) <= 3 for hits in found] == [False, True]


def test_what_the_hybrid_guide_reads_from_its_tables_is_so(place: Place) -> None:
    report = place.report("hybrid")
    tags = {query.id: query.tags for query in report.queries}

    def scores(setting: str, tag: str, metric: str = "ndcg@10") -> list[float]:
        values = values_of(report, setting, metric).items()
        return [value for name, value in values if value is not None and tag in tags[name]]

    def order(tag: str) -> list[str]:
        return sorted((one.name for one in report.settings), key=lambda name: -sum(scores(name, tag)))

    assert [one.name for one in report.ranked_settings()] == ["weighted", "rrf", "dense", "bm25"]
    assert (order("error-code")[0], order("error-code")[-1]) == ("bm25", "dense")
    assert (order("paraphrase")[0], order("paraphrase")[-1]) == ("dense", "bm25")
    assert scores("bm25", "error-code", "rr@10") == [1.0] * 13
    assert len(scores("bm25", "paraphrase")) == 18
    assert values_of(report, "bm25", "ndcg@10")["hub-06"] == 0.0


def test_the_top_k_guide_s_commands_print_what_it_shows(root: Path, place: Place) -> None:
    run, *show = "".join(blocks(root, "top-k", "sh")).splitlines()
    place.run(run)
    dense = place.report("top-k").setting("dense")
    (shown,) = blocks(root, "top-k", "text")
    *scores, context = tables(shown)
    assert_shown(shown.rpartition("\n\n")[0], dense, within=ALIKE)
    for line, (head, _) in zip(show, scores, strict=True):
        (table, *others) = place.run(line).split("\n\n")[1:]
        assert tables(table)[0][0] == head
    assert tables(others[0])[0][0] == context[0]
    sizes = {f"@{one.k}": one.tokens for one in dense.context}
    for k, cell in zip(context[0][1:], context[1]["dense"], strict=True):
        assert sizes[k] == pytest.approx(float(cell.replace(",", "")), rel=0.02)


def test_the_chunk_size_guide_shows_how_many_passages_are_cut(root: Path, place: Place) -> None:
    validate, _ = blocks(root, "chunk-size", "sh")
    printed = place.run(validate).splitlines()
    for line in blocks(root, "chunk-size", "text")[0].splitlines():
        assert line in printed
    assert any(line.endswith("is valid; 12 settings") for line in printed)


def test_the_chunk_size_guide_s_scores_are_those_of_its_config(root: Path, place: Place) -> None:
    """All of BM25, and of `dense` the size that the other guides have embedded: the others take minutes."""
    _, shown = blocks(root, "chunk-size", "text")
    of_words = place.variant("chunk-size", ("  dense: {kind: dense, top_k: 60}\n", ""))
    place.run(f"ragtrial run {of_words}")
    report = place.report("chunk-size")
    assert len(report.settings) == 6
    for setting in report.settings:
        assert_shown(shown, setting, within=0.0)
        assert setting.budget is not None
    one = place.variant("chunk-size", ("[[50, 0], [50, 10], [100, 0], [100, 20], [200, 0], ", "["))
    place.run(f"ragtrial run {one}")
    assert_shown(shown, place.report("chunk-size").setting("dense-size200-overlap40"), within=ALIKE)


def test_the_langchain_guide_s_command_prints_what_it_shows(root: Path, place: Place) -> None:
    (run,) = blocks(root, "langchain", "sh")
    place.run(run)
    report = place.report("langchain")
    (shown,) = blocks(root, "langchain", "text")
    for setting in report.settings:
        assert_shown(shown, setting, within=ALIKE)
    own, same = (report.setting(name) for name in ("langchain", "dense-articles"))
    for metric, mean in own.scores.items():
        assert mean.mean == pytest.approx(same.scores[metric].mean, abs=ALIKE), metric
    told = "77 chunks are longer than the 256 tokens that the model reads"
    assert told in " ".join((root / "docs" / "guides" / "langchain.md").read_text(encoding="utf-8").split())
    assert any(told in one.message for one in report.warnings)


def test_the_vector_size_guide_s_scores_and_bytes_are_those_of_its_config(root: Path, place: Place) -> None:
    run, show = "".join(blocks(root, "vector-size", "sh")).splitlines()
    place.run(run)
    report = place.report("vector-size")
    shown, costs = blocks(root, "vector-size", "text")
    (_, expected), (_, audits) = tables(costs)
    for setting in report.settings:
        assert_shown(shown, setting, within=ALIKE)
        assert setting.costs is not None
        assert f"{setting.costs.vector_bytes:,}" == expected[setting.name][1]
        if setting.name in audits:
            assert setting.audit is not None
            assert setting.audit.overlap == pytest.approx(float(audits[setting.name][0]), abs=ALIKE)
    assert tables(place.run(show).split("\n\n")[1])[0][0] == tables(shown)[0][0]
