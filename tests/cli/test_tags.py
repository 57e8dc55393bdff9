"""`show --tag` has the means over the queries with a tag, and nothing that was measured over all of them."""

import math
from pathlib import Path

import pytest

from experiments import QUERIES, write_experiment
from ragtrial.errors import ReportError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report, load_report
from ragtrial.scoring.query_details import of_tag
from report_hits import values_of
from small_experiment import Capture, ragtrial, refused, succeeded

TAGS = {"rye": ["bread"], "keep": ["food", "bread"], "smooth": ["food"], "coffee": ["food"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    queries = [{**query, "tags": TAGS[query["id"]]} for query in QUERIES]
    evaluators = {"order_unaware": {"k": [1, 3]}, "graded": {"metrics": ["ndcg(gain=exp)@2"]}}
    made = write_experiment(tmp_path_factory.mktemp("tagged"), queries=queries, evaluators=evaluators)
    run_experiment(made.config("retrievers.words={kind: bm25, top_k: 3}"))
    return made.folder / "results"


@pytest.fixture
def report(folder: Path) -> Report:
    return load_report("latest", folder)


@pytest.mark.parametrize(("tag", "ids"), [("bread", ["rye", "keep"]), ("food", ["keep", "smooth", "coffee"])])
def test_means_are_over_the_queries_with_the_tag_that_count(report: Report, tag: str, ids: list[str]) -> None:
    made = of_tag(report, tag)
    assert [query.id for query in made.queries] == ids
    for setting, whole in zip(made.settings, report.settings, strict=True):
        assert len(setting.per_query.short) == len(ids)
        assert setting.scores.keys() == whole.scores.keys()
        for metric, mean in setting.scores.items():
            counted = [value for name in ids if (value := values_of(report, whole.name, metric)[name]) is not None]
            assert mean.n == len(counted) == 2 or metric.startswith(("rbo", "judged"))
            assert mean.n == len(counted)
            assert mean.mean == (pytest.approx(math.fsum(counted) / mean.n, abs=1e-15) if counted else None)


def test_show_says_the_tag_or_that_no_query_has_it(folder: Path, report: Report, capsys: Capture) -> None:
    made = succeeded(capsys, "show", "--results", folder, "--tag", "bread")
    head, _, columns, first, *_ = made.out.splitlines()
    assert head == f"kitchen: 2 settings on 6 documents, 2 questions with the tag bread, run {report.run_id}"
    assert (columns.split()[-1], first.split()[0]) == ("labelled@3", "words")
    assert "coffee" not in made.out
    parsed = ragtrial(capsys, "show", "--results", folder, "--tag", "bread", "--json").json
    assert [query["id"] for query in parsed["queries"]] == ["rye", "keep"]
    none = f"no query of run {report.run_id} has the tag 'braed'. Did you mean 'bread'? They have: bread, food.\n"
    refused(capsys, "show", "--results", folder, "--tag", "braed", says=none)
    bare = report.model_copy(update={"queries": [one.model_copy(update={"tags": []}) for one in report.queries]})
    with pytest.raises(ReportError, match=r"has the tag 'bread'\. None has a tag\.$"):
        of_tag(bare, "bread")


@pytest.mark.parametrize("more", [("--costs",), ("--query", "rye")])
def test_what_is_not_a_mean_goes_with_no_tag(folder: Path, more: tuple[str, ...], capsys: Capture) -> None:
    means = "--tag shows means over queries; leave out --query, and --costs, which are of all."
    refused(capsys, "show", "--results", folder, "--tag", "bread", *more, says=means)
