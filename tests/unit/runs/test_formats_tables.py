"""Tables of pandas, polars and Arrow and Parquet files say what the same rows in a dict say; their faults have rows."""

import gzip
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import parquet

from expectations import message_of
from forms import Rows, qrels_rows, run_rows, told
from ragtrial.errors import RunFileError
from ragtrial.runs.inputs import read_qrels, read_runs

Make = Callable[[Mapping[str, Any]], object]

MAKERS: dict[str, Make] = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "pandas objects": lambda columns: pd.DataFrame(columns).astype(object),
    "pandas categories": lambda columns: pd.DataFrame(columns).astype(
        {name: "category" for name in columns if "id" in name}
    ),
    "pandas Arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "Arrow": lambda columns: pa.table(columns),
    "Arrow in chunks": lambda columns: pa.concat_tables([pa.table(columns).slice(0, 1), pa.table(columns).slice(1)]),
    "Arrow encoded": lambda columns: pa.table(
        {name: pa.array(own).dictionary_encode() if "id" in name else own for name, own in columns.items()}
    ),
    "tuples": lambda columns: list(zip(*columns.values(), strict=True)),
    "objects": lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
}  # fmt: skip
TABLES = [name for name in MAKERS if name not in ("tuples", "objects")]

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4) | st.integers(-(2**63), 2**64 - 1).map(
    str
)
scores = st.floats(allow_nan=False)


def columns_of(rows: Sequence[tuple[str, str, float]]) -> dict[str, list[Any]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(("qid", "docid", "score"))}


def by_hand(rows: Sequence[tuple[str, str, float]]) -> Rows:
    made: Rows = {}
    for query, document, score in rows:
        made.setdefault(query, []).append((document, score))
    return made


@given(st.lists(st.tuples(ids, ids, scores), min_size=1, max_size=12))
@pytest.mark.parametrize("maker", MAKERS)
def test_rows_in_any_order_become_the_run_that_they_say(maker: str, rows: list[tuple[str, str, float]]) -> None:
    (run,) = read_runs(MAKERS[maker](columns_of(rows)), name="a")
    assert run_rows(run) == by_hand(rows)
    assert list(run.queries) == list(by_hand(rows))
    assert (run.name, run.by_rank) == ("a", False)


@given(st.dictionaries(st.tuples(ids, ids), st.integers(-1_000_000, 1_000_000), min_size=1, max_size=12))
@pytest.mark.parametrize("maker", MAKERS)
def test_rows_in_any_order_become_the_qrels_that_they_say(maker: str, pairs: dict[tuple[str, str], int]) -> None:
    rows = [(query, document, grade) for (query, document), grade in pairs.items()]
    qrels = read_qrels(MAKERS[maker](columns_of(rows)))
    assert qrels_rows(qrels) == {query: dict(own) for query, own in by_hand(rows).items()}
    assert not qrels.judgments.ordered.any()


@pytest.mark.parametrize("maker", MAKERS)
def test_ids_that_are_numbers_become_strings_whole_decimals_too(maker: str) -> None:
    wide = {"qid": [7, 7, 2], "docid": [2**63 - 1, -5, 0], "score": [1, 2, 3]}
    (run,) = read_runs(MAKERS[maker](wide))
    assert run_rows(run) == {"7": [(str(2**63 - 1), 1.0), ("-5", 2.0)], "2": [("0", 3.0)]}
    decimals = {"qid": [7.0, 7.0, 2.0], "docid": [1.0, 2.0, 3.0], "score": [1, 2, 3]}
    (run,) = read_runs(MAKERS[maker](decimals))
    assert run_rows(run) == {"7": [("1", 1.0), ("2", 2.0)], "2": [("3", 3.0)]}
    unsigned = {"qid": [1, 1], "docid": np.array([2**64 - 1, 3], dtype=np.uint64), "score": [1, 2]}
    if maker in ("pandas", "pandas Arrow", "pandas nullable", "polars", "Arrow"):
        assert list(read_runs(MAKERS[maker](unsigned))[0].documents) == [str(2**64 - 1), "3"]


@pytest.mark.parametrize("maker", TABLES)
def test_ranks_order_a_run_and_every_bad_value_is_told_with_its_row(maker: str) -> None:
    columns = {"topic": ["q", "q"], "docid": ["a", "b"], "Rank": [2, 1]}
    (run,) = read_runs(MAKERS[maker](columns))
    assert (run.by_rank, run_rows(run)) == (True, {"q": [("a", 2.0), ("b", 1.0)]})
    both = {**columns, "score": [0.5, 0.25]}
    assert read_runs(MAKERS[maker](both))[0].by_rank is False
    chosen = read_runs(MAKERS[maker](both), columns={"rank": "Rank"})
    assert (chosen[0].by_rank, run_rows(chosen[0])) == (True, run_rows(run))
    columns = {"qid": ["q", None, "q"], "docid": ["d", "e", None], "score": [0.5, 1.0, None]}
    message = message_of(RunFileError, read_runs, MAKERS[maker](columns))
    lines = [line.partition(": ")[2] for line in message.splitlines()]
    assert sorted(lines) == [
        "row 1 (from 0): the query is null; an id is a string or a whole number.",
        "row 2 (from 0): the document is null; an id is a string or a whole number.",
        "row 2 (from 0): the score null is no number, or none of 64 bits.",
    ]


class Scored(NamedTuple):
    """As ir_measures has it, the columns in another order."""

    score: float
    doc_id: str
    query_id: str


def test_fields_and_columns_are_known_by_names_and_scores_may_be_decimals() -> None:
    assert run_rows(read_runs([Scored(0.5, "d", "q")])[0]) == {"q": [("d", 0.5)]}
    frame = pd.DataFrame({"query": ["x"], "qid": ["q"], "doc": ["y"], "docno": ["d"], "score": [0.5], "label": [2]})
    assert run_rows(read_runs(frame)[0]) == {"q": [("d", 0.5)]}
    assert qrels_rows(read_qrels(frame)) == {"q": {"d": 2}}
    frame = pd.DataFrame({"Frage": ["q"], "Treffer": ["d"], "docid": ["no"], "Note": [3]})
    columns = {"query": "Frage", "document": "Treffer", "grade": "Note"}
    assert qrels_rows(read_qrels(frame, columns=columns)) == {"q": {"d": 3}}
    assert read_runs(frame, columns={"query": "Frage", "document": "Treffer", "score": "Note"})[0].queries == ("q",)
    scores = [Decimal("1.5"), Decimal(2)]
    expected = {"q": [("d", 1.5), ("e", 2.0)]}
    data = {"qid": ["q", "q"], "docid": ["d", "e"], "score": scores}
    rows = list(zip("qq", "de", scores, strict=True))
    mapping = {"q": dict(zip("de", scores, strict=True))}
    for source in (pd.DataFrame(data), pa.table(data), pl.DataFrame(data), rows, mapping):
        assert run_rows(read_runs(source)[0]) == expected
    with pytest.raises(RunFileError, match=r"row 0 \(from 0\): the score Decimal"):
        read_runs([("q", "d", Decimal("sNaN"))])


USUAL = {
    "query": ["qid", "query_id", "query-id", "q_id", "topic", "query", "QID", " Query-Id ", "queryId", "Question ID"],
    "document": ["docid", "doc_id", "docno", "doc-id", "corpus-id", "corpus_id", "did", "pid", "passage_id",
                 "document_id", "doc", "DocNo"],
    "score": ["score", "sim", "similarity"],
    "grade": ["label", "relevance", "rel", "grade", "relevancy grade", "relevance grade", "score",
              "Rating", "judgment"],
}  # fmt: skip


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in USUAL.items() for name in names])
def test_usual_names_of_columns_are_known(role: str, name: str) -> None:
    names = {"query": "qid", "document": "docid", "score": "score", "grade": "rel", role: name}
    number = "grade" if role == "grade" else "score"
    frame = pd.DataFrame({names["query"]: ["q"], names["document"]: ["d"], names[number]: [1], "text": ["x"]})
    if role == "grade":
        assert qrels_rows(read_qrels(frame)) == {"q": {"d": 1}}
    else:
        assert run_rows(read_runs(frame)[0]) == {"q": [("d", 1.0)]}


COLUMN_FAULTS: list[tuple[dict[str, list[Any]], dict[str, str] | None, list[str]]] = [
    ({"qid": [1], "docid": [1], "pid": ["d"], "score": [1]}, None,
     ["the document may be any of the columns 'docid', 'pid'; say which: --columns document=docid "
      "(in Python run_columns={'document': 'docid'})."]),
    ({"docno": ["d"], "text": ["x"]}, None,
     ["has no column for the query; it has: 'docno', 'text'. Rename it, or say which it is: --columns query=NAME "
     "(in Python run_columns={'query': 'NAME'}).",
     "has no column for the score or the rank; it has: 'docno', 'text'. Rename it, or say which it is: --columns "
     "score=NAME (in Python run_columns={'score': 'NAME'})."]),
    ({"qid": [1], "docid": ["d"], "sim": [1], "score": [1]}, None,
     ["the score may be any of the columns 'sim', 'score'; say which: --columns score=sim "
      "(in Python run_columns={'score': 'sim'})."]),
    (
        {"qid": [1], "docid": ["d"], "score": [1]},
        {"documnt": "docid", "query": "quid"},
        [
            "columns has 'documnt'; a run may have: query, document, score, rank. Did you mean 'document'?",
            "needs one column 'quid', given for the query; it has 0. Did you mean 'qid'? It has: 'qid', 'docid', "
            "'score'.",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "given_names", "messages"), COLUMN_FAULTS)
def test_columns_that_are_missing_or_could_be_several_are_named(
    columns: dict[str, list[Any]], given_names: dict[str, str] | None, messages: list[str]
) -> None:
    said = message_of(RunFileError, read_runs, pl.DataFrame(columns), columns=given_names)
    assert said.splitlines() == [f"the given DataFrame: {message}" for message in messages]


def test_what_is_no_table_of_rows_is_refused() -> None:
    rows = "the given list: row"
    wanted = "cannot be read; give a path, a mapping, a DataFrame, an Arrow table or a list of rows."
    for source, message in [
        (pl.DataFrame({"qid": []}).lazy(), f"the given LazyFrame: {wanted}"),
        (pl.DataFrame({"qid": [], "docid": [], "score": []}), "the given DataFrame: has no rows."),
        ([], "the given list: has no rows."),
        ([("q", "d")], f"{rows} 0 (from 0): must have the values (query, document, score); found ('q', 'd')."),
        ([("q", "d", 1), 5], f"{rows} 1 (from 0): must have the values (query, document, score); found 5."),
        (["qd1"], f"{rows} 0 (from 0): must have the values (query, document, score); found 'qd1'."),
        ([{"qid": 1, "docid": 2, "sim": 3}, {"qid": 1}],
         f"{rows} 1 (from 0): must have the keys qid, docid, sim; found {{'qid': 1}}."),
        (7, f"the given int: {wanted}"),
    ]:  # fmt: skip
        assert message_of(RunFileError, read_runs, source) == message


@given(st.lists(st.tuples(ids, ids, scores), min_size=1, max_size=12))
def test_parquet_is_its_table(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, float]]) -> None:
    path = tmp_path_factory.mktemp("parquet") / "mine.parquet"
    pl.DataFrame(columns_of(rows), schema={"qid": pl.String, "docid": pl.String, "score": pl.Float64}).write_parquet(
        path
    )
    (run,) = read_runs(path)
    assert (run.name, run_rows(run)) == ("mine", by_hand(rows))
    packed = path.with_suffix(".parquet.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    (run,) = read_runs(packed)
    assert (run.name, run_rows(run)) == ("mine", by_hand(rows))


def test_only_columns_that_matter_are_read_and_damaged_parquet_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"qid": [1], "docid": ["d"], "rel": [2], "text": [["nested", "list"]]}, index=["row"])
    frame.to_parquet(tmp_path / "a.parquet")
    assert qrels_rows(read_qrels(tmp_path / "a.parquet")) == {"1": {"d": 2}}
    content = io.BytesIO()
    parquet.write_table(
        pa.table({"qid": ["q"] * 99, "docid": [str(n) for n in range(99)], "score": [0.5] * 99}), content
    )
    for cut in (content.getvalue()[:-20], b"PAR1", b"no parquet at all"):
        (tmp_path / "a.parquet").write_bytes(cut)
        (line,) = told(tmp_path, RunFileError, read_runs, tmp_path / "a.parquet")
        assert line.startswith("a.parquet: is no Parquet file, or a damaged one: Parquet ")
        assert line.endswith(".")


def test_without_its_package_parquet_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert told(tmp_path, RunFileError, read_runs, tmp_path / "a.parquet") == [
        "a.parquet: needs a package that is not installed to be read as Parquet: pip install 'ragtrial[parquet]'."
    ]


@pytest.mark.parametrize("maker", ["pandas", "polars"])
def test_without_arrow_tables_are_read_all_the_same(maker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"qid": ["b", "a", "b"], "docid": ["x", "\u00e4", "z"], "score": [1.0, 2.0, 3.0]}
    table = MAKERS[maker](columns)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run_rows(read_runs(table)[0]) == {"b": [("x", 1.0), ("z", 3.0)], "a": [("\u00e4", 2.0)]}
    grades = MAKERS[maker]({**columns, "score": [1, 2, 3]})
    assert qrels_rows(read_qrels(grades)) == {"b": {"x": 1, "z": 3}, "a": {"\u00e4": 2}}
