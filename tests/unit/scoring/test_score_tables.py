"""Tables of scores are compared as the same numbers in a report are, whatever their form."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hand_made
from ragtrial import compare
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.errors import InputError

RANDOM = np.random.default_rng(5)
QUESTIONS = [f"Where is number {place}?" for place in range(30)]
BASE = RANDOM.random(30)
SCORES: dict[str, Sequence[float]] = {
    "bm25": BASE.tolist(),
    "dense": np.clip(BASE + RANDOM.normal(0.1, 0.15, 30), 0, 1).tolist(),
    "hybrid": np.clip(BASE + RANDOM.normal(0.15, 0.15, 30), 0, 1).tolist(),
}
LONG = [
    {"question": question, "system": system, "metric": "faithfulness", "score": value}
    for system, values in SCORES.items()
    for question, value in zip(QUESTIONS, values, strict=True)
]
ROWS = [
    {"question": question, "system": system, "faithfulness": value, "reference": "42"}
    for system, values in SCORES.items()
    for question, value in zip(QUESTIONS, values, strict=True)
]
WIDE = [
    {"question": question, **{system: values[place] for system, values in SCORES.items()}}
    for place, question in enumerate(QUESTIONS)
]


def text_of(rows: Sequence[Mapping[str, Any]], sign: str = ",") -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), delimiter=sign)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def written(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8", newline="")
    return folder / name


def numbers(comparison: Comparison) -> list[Any]:
    """All that is computed from the scores, without the names of the metric and of files."""
    fields = {"baseline", "setting", "difference", "ci", "p", "p_corrected", "n", "clusters", "verdict", "wins"}
    return [part.model_dump(include=fields) for part in comparison.comparisons]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    report = hand_made.report_of([hand_made.setting_of(name, values) for name, values in SCORES.items()])
    return numbers(compare(report))


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """As ``DataFrame.to_json`` writes rows by default."""
    return {name: {str(place): row[name] for place, row in enumerate(rows)} for name in rows[0]}


FORMS = {
    "long.csv": text_of(LONG),
    "long.tsv": text_of(LONG, "\t"),
    "long.json": json.dumps(LONG),
    "long.jsonl": "".join(f"{json.dumps(row)}\n" for row in LONG),
    "columns.json": json.dumps(columns_of(LONG)),
    "by-question.csv": text_of(sorted(LONG, key=lambda row: QUESTIONS.index(str(row["question"])))),
    "synonyms.csv": text_of(LONG).replace("question,system,metric,score", "Query,Retriever,Metric_Name,Value", 1),
    "rows.csv": text_of(ROWS),
    "settings.csv": "sep=;\r\n" + text_of(WIDE, ";"),
    "repeat-failed.csv": text_of([*LONG, {**LONG[0], "score": "timeout"}]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_table_of_any_form_gives_the_verdicts_of_a_report(name: str, tmp_path: Path, expected: list[Any]) -> None:
    assert numbers(compare(written(tmp_path, name, FORMS[name]))) == expected


def test_frames_and_rows_in_memory_are_tables(expected: list[Any], tmp_path: Path) -> None:
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for table in (LONG, pandas.DataFrame(ROWS), polars.DataFrame(LONG), pyarrow.Table.from_pylist(WIDE)):
        assert numbers(compare(table)) == expected
    pandas.DataFrame(LONG).to_parquet(tmp_path / "long.parquet")
    assert numbers(compare(tmp_path / "long.parquet")) == expected


def test_a_file_for_each_system_is_a_setting_that_is_called_like_it(tmp_path: Path, expected: list[Any]) -> None:
    files = [
        written(tmp_path, f"{system}.csv", text_of([{"ndcg@10": value} for value in values]))
        for system, values in SCORES.items()
    ]
    with pytest.raises(InputError, match="nothing to compare"):
        compare(files[0])
    by_order = compare(*files)
    assert numbers(by_order) == expected
    assert [warning.code for warning in by_order.warnings] == ["paired-by-order"]
    assert [part["verdict"] for part in numbers(compare(*files[1:], baseline=files[0]))] == ["no worse", "better"]
    short = written(tmp_path, "short.csv", "ndcg@10\n0.5\n")
    with pytest.raises(InputError, match="differ in length"):
        compare(*files, short)


def test_a_report_is_compared_with_a_table_by_ids_or_by_texts(tmp_path: Path) -> None:
    queries = [hand_made.query_of(place, text) for place, text in enumerate(QUESTIONS)]
    report = hand_made.report_of([hand_made.setting_of("dense", SCORES["dense"])], queries)
    before = [{"setting": "dense", "ndcg@10": value} for value in SCORES["bm25"]]
    by_id = [{"query": query.id, **row} for query, row in zip(queries, before, strict=True)]
    by_text = [{"question": f" {query.text} ", **row} for query, row in zip(queries, before, strict=True)][::-1]
    verdicts = []
    for rows in (by_id, by_text):
        comparison = compare(report, baseline=written(tmp_path, "baseline.csv", text_of(rows)))
        (part,) = comparison.comparisons
        verdicts.append((part.verdict, part.n, part.p))
        assert (part.setting, part.baseline) == ("hand-made:dense", "baseline.csv:dense")
        assert not comparison.warnings
    assert verdicts[0] == verdicts[1]
    assert verdicts[0][:2] == ("better", 30)
