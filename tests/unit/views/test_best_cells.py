"""The best number of each column, where the highest is the best, and verdicts that are decided or not."""

from __future__ import annotations

import pytest

from ragtrial.views.table import Column, Table, best_cells, cell_kind, mean_table


def test_the_highest_mean_of_each_metric_is_the_best_but_not_of_what_is_judged() -> None:
    rows = [["a", "0.5000", "1.0000", "0.9000", "10"], ["b", "0.7000 (8)", "-", "1.0000", "10"]]
    table = mean_table("setting", ["ndcg@10", "rr@10", "judged@10"], rows)
    assert best_cells(table) == {(1, 1), (0, 2)}
    assert best_cells(Table(table.columns, rows[:1])) == set()


def test_equal_numbers_are_all_the_best() -> None:
    columns = [Column("setting", is_text=True), Column("x", best="highest")]
    assert best_cells(Table(columns, [["a", "1,000.5"], ["b", "1,000.5"], ["c", "2"]])) == {(0, 1), (1, 1)}


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("better", "better"),
        ("worse within the margin", "worse"),
        ("inconclusive", "undecided"),
        ("too few differences", "undecided"),
        ("no worse", "name"),
        ("(baseline)", "name"),
    ],
)
def test_a_verdict_is_decided_or_not(cell: str, kind: str) -> None:
    assert cell_kind(Column("verdict", is_text=True), cell) == kind
    assert cell_kind(Column("mean"), cell) == "number"
