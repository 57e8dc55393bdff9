"""The table says over how many queries each mean is, and shows what fits."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrial import Report, load_report
from ragtrial.records import FoundText
from ragtrial.report.schema import JudgmentPart, MeanPart, PassagePart
from ragtrial.scoring.query_details import QueryRanking
from ragtrial.views.report_tables import audit_table, fact_table, metric_table, named_metrics, score_table
from ragtrial.views.table import Column, Table, best_cells, cell_kind, mean_table
from ragtrial.views.texts import answer_text, hit_text, query_text


@pytest.fixture(scope="module")
def report(root: Path) -> Report:
    return load_report(root / "results" / "sample")


def test_means_over_other_queries_show_their_own_n(report: Report) -> None:
    header, row = score_table(report, 200, metrics=["ndcg@10", "rbo(p=0.9)@10"]).cells
    scores = report.settings[0].scores
    assert (scores["ndcg@10"].n, scores["rbo(p=0.9)@10"].n) == (59, 5)
    assert row[header.index("rbo(p=0.9)@10")] == f"{scores['rbo(p=0.9)@10'].mean:.3f} (5)"
    assert row[header.index("ndcg@10")] == f"{scores['ndcg@10'].mean:.3f}"
    assert (header[-1], row[-1]) == ("n", "59")
    (setting,) = report.settings
    name = next(iter(report.metrics))
    fewer, none = (
        setting.model_copy(update={"scores": {**setting.scores, name: MeanPart(mean=mean, n=n)}})
        for mean, n in ((0.25, 1), (None, 0))
    )
    whole = setting.scores[name]
    assert metric_table(report, [none, fewer, setting]).cells[1] == [
        name, "-", "0.250 (1)", f"{whole.mean:.3f}", str(whole.n)
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_narrow_table_keeps_the_primary_metric_and_the_labelled_share_and_fits(report: Report, width: int) -> None:
    table = score_table(report, width)
    assert (table.titles[1], table.titles[-1]) == ("ndcg@10", "labelled@10")
    assert sum(max(map(len, column)) + 2 for column in zip(*table.cells, strict=True)) - 2 == table.width <= width


def test_a_narrow_table_names_what_it_leaves_out(report: Report, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    whole = score_table(report, width=200)
    assert whole.notes == ()
    for width in range(20, 200, 5):
        table = score_table(report, width)
        lacking = [name for name in whole.titles if name not in table.titles]
        named = f"{', '.join(lacking)} (ragtrial show results/sample --metrics all)"
        line = f"Too wide for {width} columns: {named}."
        assert list(table.notes) == ([line] if lacking else [])
    names = named_metrics(report, "MRR@10, recall@1,rbp(p=0.8)@10")
    assert names == ["rr@10", "recall@1", "rbp(p=0.8)@10"]
    assert score_table(report, 10, metrics=names).titles == ["setting", *names]


def test_the_table_of_the_audit_has_a_row_for_each_index_that_is_not_exact(report: Report) -> None:
    (setting,) = report.settings
    assert setting.audit is not None
    lossy = setting.audit.model_copy(update={"overlap": 0.98765, "lowest_overlap": 0.4, "lost": {"ndcg@10": 0.03}})
    unknown = lossy.model_copy(update={"overlap": None, "lowest_overlap": None, "lost": {"ndcg@10": None}})
    gains = lossy.model_copy(update={"lost": {"ndcg@10": -0.5}})
    same = lossy.model_copy(update={"lost": {"ndcg@10": 0.0}})
    settings = [
        setting.model_copy(update={"name": name, "audit": audit})
        for name, audit in [("a", lossy), ("exact", None), ("b", unknown), ("c", gains), ("d", same)]
    ]
    assert audit_table(report, settings).cells == [
        ["index against exact search", "ANN recall", "lowest", "change"],
        ["a", "0.9877", "0.4000", "-0.030"],
        ["b", "-", "-", "-"],
        ["c", "0.9877", "0.4000", "+0.500"],
        ["d", "0.9877", "0.4000", "0.000"],
    ]
    whole = setting.audit.model_copy(update={"overlap": 1.0, "lowest_overlap": 1.0, "short_queries": 0})
    assert audit_table(report, [settings[1], setting.model_copy(update={"audit": whole})]).cells == []


def test_what_a_refiner_tells_is_shown_as_it_counts(report: Report) -> None:
    facts = {"fused_by": "chunk", "mean_fused": 154.129, "queries": 1200, "unknown": None}
    told = report.settings[0].model_copy(update={"name": "hybrid", "facts": facts})
    rows = [["fused_by", "chunk"], ["mean_fused", "154.13"], ["queries", "1,200"]]
    assert fact_table(told).cells == [["hybrid reports", ""], *rows]
    assert fact_table(told.model_copy(update={"facts": {}})).cells == []


def test_the_best_cells_are_all_of_the_highest_but_not_of_what_is_judged() -> None:
    rows = [["a", "0.5000", "1.0000", "0.9000", "10"], ["b", "0.7000 (8)", "-", "1.0000", "10"]]
    table = mean_table("setting", ["ndcg@10", "rr@10", "judged@10"], rows)
    assert best_cells(table) == {(1, 1), (0, 2)}
    assert best_cells(Table(table.columns, rows[:1])) == set()
    columns = [Column("setting", is_text=True), Column("x", best="highest")]
    assert best_cells(Table(columns, [["a", "1,000.5"], ["b", "1,000.5"], ["c", "2"]])) == {(0, 1), (1, 1)}


@pytest.mark.parametrize(("cell", "kind"), [
    ("better", "better"), ("worse within the margin", "worse"), ("inconclusive", "undecided"),
    ("too few differences", "undecided"), ("no worse", "name"), ("(baseline)", "name"),
])  # fmt: skip
def test_a_verdict_is_decided_or_not(cell: str, kind: str) -> None:
    assert cell_kind(Column("verdict", is_text=True), cell) == kind
    assert cell_kind(Column("mean"), cell) == "number"


def test_a_query_of_many_settings_shows_those_that_differ_most_and_equal_hits_once(report: Report) -> None:
    query, metric = report.queries[0], report.primary_metric
    ranked = {"top": ("a.md", 1.0), "twin": ("a.md", 1.0), "near": ("b.md", 0.9), "far": ("c.md", 0.1),
              "low": ("d.md", 0.2), "last": ("e.md", 0.0)}  # fmt: skip
    rankings = [
        QueryRanking(report.settings[0].model_copy(update={"name": name}), query, {metric: value},
                     tuple(FoundText(rank, doc, "", 0, 9, None, "Some text") for rank in range(1, 13)))
        for name, (doc, value) in ranked.items()
    ]  # fmt: skip
    text = query_text(report, query.id, rankings, 100)
    assert re.findall(rf"^([\w, ]+): {metric} ", text, re.MULTILINE) == ["top, twin", "far", "low", "last"]
    assert text.count("Some text") == 4 * 10
    assert text.count("  and 2 more: --setting NAME") == 4
    assert text.endswith("\n1 other setting not shown: --setting NAME shows one, --json all.")
    assert query_text(report, query.id, rankings[:1], 100).count("Some text") == 12


def test_the_first_answer_is_the_first_passage_that_reaches_the_threshold(report: Report) -> None:
    labels = [JudgmentPart(doc="a.md", relevance=grade) for grade in (0, 1, 2)]
    passages = tuple(PassagePart(found=rank, covered=[]) for rank in (1, 2, 3))
    query = report.queries[0].model_copy(update={"relevant_docs": labels})
    ranking = QueryRanking(report.settings[0], query, {report.primary_metric: 0.5}, (), passages)
    assert "0.5000, first answer at rank 2\n" in query_text(report, query.id, [ranking], 100)


MARKDOWN = """## Give *permission*

| Ring | Meaning |
|:---|---:|
| Solid | `All` **well** |

```sh
set snake_case
```

- See [the list](https://example.com/) and press a * b.
"""
PLAIN = "Give permission: · Ring · Meaning · Solid · All well set snake_case · See the list and press a * b."


@pytest.mark.parametrize(("doc", "shown"), [("a.md", PLAIN), ("a.txt", " ".join(MARKDOWN.split()))])
def test_hits_are_plain_text_without_the_signs_of_markdown(doc: str, shown: str) -> None:
    lines = hit_text(FoundText(1, doc, "", 0, 9, None, MARKDOWN), 200).splitlines()[1:]
    assert " ".join(" ".join(lines).split()) == shown


def test_a_hit_is_named_by_the_nearest_heading_above_what_is_shown_of_it() -> None:
    """Unless the text begins with that heading, or it is the title; a long text begins shortly before its passage."""
    headings = ((0, "Oven"), (40, "Cleaning"), (500, "Repairs"))
    text = "\n\nSome words. " * 40 + "Call the shop."
    hit = FoundText(1, "oven.md", "Oven", 60, 60 + len(text), None, text, None, None, headings)
    label = JudgmentPart(doc="oven.md", relevance=1, spans=[{"start": 600, "end": 614}])
    assert hit_text(hit, 80).splitlines()[0].endswith(f"[60:{60 + len(text)}]  Cleaning")
    assert hit_text(hit, 80, [label]).splitlines()[0].endswith("]  Repairs")
    assert hit_text(replace(hit, start=40), 80).splitlines()[0].endswith("]")
    assert hit_text(replace(hit, start=20), 80).splitlines()[0].endswith("]")


def test_a_hit_to_judge_has_all_of_its_text_and_is_no_wider_than_the_screen() -> None:
    hit = FoundText(1, "a.md", "Title", 0, 192, None, "four words of it\n" + "four words of it " * 11)
    lines = answer_text(hit, 60).splitlines()
    assert lines[:2] == ["a.md  Title", "    four words of it"]
    assert max(map(len, lines)) <= 60
    assert " ".join(lines).split().count("words") == 12
