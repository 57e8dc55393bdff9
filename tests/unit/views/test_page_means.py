"""The table of means on the page says over how many queries each of them is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from small_experiment import CONFIG, ragtrial, small_experiment

LABELS: dict[str, Any] = {
    "queries": [
        {"id": "q1", "text": "thirty days", "ordered": True,
         "relevant_docs": [{"doc": "returns.md"}, {"doc": "warranty.md"}]},
        {"id": "q2", "text": "which batteries are covered", "relevant_docs": [{"doc": "warranty.md"}]},
        {"id": "q3", "text": "when do parcels arrive", "relevant_docs": [{"doc": "shipping.txt"}]},
    ]
}  # fmt: skip


@pytest.mark.slow
def test_a_mean_over_fewer_queries_has_its_own_n_in_brackets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A metric of labels with an order has a value for the one query that is labelled so, and not for all three."""
    monkeypatch.chdir(tmp_path)
    metrics = '  words: {kind: bm25, top_k: 3}\nevaluators: {order_aware: {k: [3], metrics: ["rbo(p=0.9)@3"]}, '
    metrics += "order_unaware: {k: [3]}, graded: {k: [3]}, primary_metric: ndcg@3}\n"
    small_experiment(tmp_path, config=CONFIG.replace("latency", metrics + "latency"), labels=LABELS)
    ran = ragtrial(capsys, "run", "experiment.yaml", "-q", "--json")
    assert ran.code == 0, ran.err
    made = ragtrial(capsys, "report", "latest", "--results", "results", "-o", "page.html")
    assert made.code == 0, made.err
    (table,) = re.findall(r"<caption><span>Means.*?</table>", Path("page.html").read_text("utf-8"), re.DOTALL)
    header = [re.sub(r"<.*?>", "", text) for text in re.findall(r"<th [^>]*>(.*?)</th>", table)]
    rows = [dict(zip(header, re.findall(r"<td[^>]*>(.*?)</td>", row), strict=True))
            for row in re.findall(r"<tr><td.*?</tr>", table)]  # fmt: skip
    assert [row["setting"] for row in rows] == ["words", "dense"]  # by the primary metric
    for row in rows:
        assert row["n"] == "3"
        assert re.fullmatch(r"\d\.\d{3}", row["ndcg@3"])
        assert re.fullmatch(r"\d\.\d{3} \(1\)", row["rbo(p=0.9)@3"])
