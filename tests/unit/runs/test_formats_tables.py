"""Tables of pandas, polars and Arrow and Parquet files say what the same rows in a dict say; their faults have rows."""

from __future__ import annotations

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
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from forms import Rows, qrels_rows, run_rows, told
from ragtrial.errors import LabelsError, RunFileError
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


def test_a_number_and_its_digits_are_one_id() -> None:
    frame = pd.DataFrame({"qid": pd.Series([7, "8", "7"], dtype=object), "docid": ["a", "b", "c"], "score": [1, 2, 3]})
    assert run_rows(read_runs(frame)[0]) == {"7": [("a", 1.0), ("c", 3.0)], "8": [("b", 2.0)]}
    with pytest.raises(LabelsError) as caught:
        read_qrels([(1, "d", 1), ("1", "d", 0)])
    assert str(caught.value) == (
        "the given list: row 1 (from 0): judges document 'd' for query '1', as row 0 does; give each pair one grade."
    )


def test_categories_of_polars_are_their_strings() -> None:
    frame = pl.DataFrame({"qid": ["b", "a", "b"], "docid": ["x", "y", "z"], "score": [1.0, 2.0, 3.0]})
    for kind in (pl.Categorical, pl.Enum(["z", "y", "x", "a", "b"])):
        made = frame.with_columns(pl.col("qid", "docid").cast(kind))
        assert run_rows(read_runs(made)[0]) == {"b": [("x", 1.0), ("z", 3.0)], "a": [("y", 2.0)]}


@pytest.mark.parametrize("maker", TABLES)
def test_ranks_order_a_run_that_has_no_scores(maker: str) -> None:
    columns = {"topic": ["q", "q"], "docid": ["a", "b"], "Rank": [2, 1]}
    (run,) = read_runs(MAKERS[maker](columns))
    assert (run.by_rank, run_rows(run)) == (True, {"q": [("a", 2.0), ("b", 1.0)]})
    both = {**columns, "score": [0.5, 0.25]}
    assert read_runs(MAKERS[maker](both))[0].by_rank is False
    chosen = read_runs(MAKERS[maker](both), columns={"rank": "Rank"})
    assert (chosen[0].by_rank, run_rows(chosen[0])) == (True, run_rows(run))


class Scored(NamedTuple):
    """As ir_measures has it, the columns in another order."""

    score: float
    doc_id: str
    query_id: str


def test_named_tuples_are_read_by_their_names() -> None:
    assert run_rows(read_runs([Scored(0.5, "d", "q")])[0]) == {"q": [("d", 0.5)]}


USUAL = {
    "query": ["qid", "query_id", "query-id", "q_id", "topic", "query", "QID", " Query-Id "],
    "document": ["docid", "doc_id", "docno", "doc-id", "corpus-id", "corpus_id", "did", "pid", "passage_id",
                 "document_id", "doc", "DocNo"],
    "score": ["score", "sim", "similarity"],
    "grade": ["label", "relevance", "rel", "grade", "relevancy grade", "relevance grade", "score"],
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


def test_texts_beside_ids_are_no_ids_and_scores_beside_grades_no_grades() -> None:
    frame = pd.DataFrame({"query": ["x"], "qid": ["q"], "doc": ["y"], "docno": ["d"], "score": [0.5], "label": [2]})
    assert run_rows(read_runs(frame)[0]) == {"q": [("d", 0.5)]}
    assert qrels_rows(read_qrels(frame)) == {"q": {"d": 2}}


def test_columns_that_are_named_need_no_usual_name() -> None:
    frame = pd.DataFrame({"Frage": ["q"], "Treffer": ["d"], "docid": ["no"], "Note": [3]})
    columns = {"query": "Frage", "document": "Treffer", "grade": "Note"}
    assert qrels_rows(read_qrels(frame, columns=columns)) == {"q": {"d": 3}}
    assert read_runs(frame, columns={"query": "Frage", "document": "Treffer", "score": "Note"})[0].queries == ("q",)


COLUMN_FAULTS: list[tuple[dict[str, list[Any]], dict[str, str] | None, list[str]]] = [
    (
        {"qid": [1], "docid": [1], "docno": ["d"], "score": [1]},
        None,
        ["the document may be any of the columns 'docid', 'docno'; say which: document=docid."],
    ),
    (
        {"docno": ["d"], "text": ["x"]},
        None,
        [
            "has no column for the query; it has: 'docno', 'text'. Say which it is: query=NAME.",
            "has no column for the score or the rank; it has: 'docno', 'text'. Say which it is: rank=NAME.",
        ],
    ),
    (
        {"qid": [1], "docid": ["d"], "sim": [1], "score": [1]},
        None,
        ["the score may be any of the columns 'sim', 'score'; say which: score=sim."],
    ),
    (
        {"qid": [1], "docid": ["d"], "score": [1]},
        {"documnt": "docid", "query": "quid"},
        [
            "columns has 'documnt'; a run may have: query, document, score, rank. Did you mean 'document'?",
            "needs one column 'quid', given for the query; it has 0. Did you mean 'qid'? It has: 'qid', 'docid', "
            "'score'.",
        ],
    ),
]


@pytest.mark.parametrize(("columns", "given_names", "messages"), COLUMN_FAULTS)
def test_columns_that_are_missing_or_could_be_several_are_named(
    columns: dict[str, list[Any]], given_names: dict[str, str] | None, messages: list[str]
) -> None:
    with pytest.raises(RunFileError) as caught:
        read_runs(pl.DataFrame(columns), columns=given_names)
    assert str(caught.value).splitlines() == [f"the given DataFrame: {message}" for message in messages]


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([["q", "d", 1, 2]], columns=["qid", "docid", "score", "score"])
    with pytest.raises(RunFileError, match="the score may be any of the columns 'score', 'score'"):
        read_runs(frame)
    with pytest.raises(RunFileError, match="needs one column 'score', given for the score; it has 2"):
        read_runs(frame, columns={"score": "score"})


@pytest.mark.parametrize("maker", TABLES)
def test_every_bad_value_of_a_run_is_told_with_its_row(maker: str) -> None:
    columns = {"qid": ["q", None, "q"], "docid": ["d", "e", None], "score": [0.5, 1.0, None]}
    with pytest.raises(RunFileError) as caught:
        read_runs(MAKERS[maker](columns))
    lines = [line.partition(": ")[2] for line in str(caught.value).splitlines()]
    assert sorted(lines) == [
        "row 1 (from 0): the query is null; an id is a string or a whole number.",
        "row 2 (from 0): the document is null; an id is a string or a whole number.",
        "row 2 (from 0): the score null is no number, or none of 64 bits.",
    ]


@pytest.mark.parametrize("maker", MAKERS)
def test_values_of_the_wrong_kind_are_told_with_their_row(maker: str) -> None:
    columns = {"qid": [1.5, 2.5], "docid": [True, False], "score": ["high", "low"]}
    with pytest.raises(RunFileError) as caught:
        read_runs(MAKERS[maker](columns))
    assert sorted(line.partition(": ")[2] for line in str(caught.value).splitlines()) == [
        "row 0 (from 0): the document is True; an id is a string or a whole number.",
        "row 0 (from 0): the query is 1.5; an id is a string or a whole number.",
        "row 0 (from 0): the score 'high' is no number, or none of 64 bits.",
        "row 1 (from 0): the document is False; an id is a string or a whole number.",
        "row 1 (from 0): the query is 2.5; an id is a string or a whole number.",
        "row 1 (from 0): the score 'low' is no number, or none of 64 bits.",
    ]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_grades_are_whole_numbers_within_bounds(make: Make) -> None:
    def messages(grades: list[Any]) -> list[str]:
        with pytest.raises(LabelsError) as caught:
            read_qrels(make({"qid": ["q"] * len(grades), "docid": list("abcdef")[: len(grades)], "rel": grades}))
        return [line.partition(": ")[2] for line in str(caught.value).splitlines()]

    assert messages([1.0, 0.5, -1.5]) == [
        "row 1 (from 0): the grade 0.5 must be a whole number, such as 1.",
        "row 2 (from 0): the grade -1.5 must be a whole number, such as 1.",
    ]
    assert messages([True, False]) == [
        "row 0 (from 0): the grade True is no number, or none of 64 bits.",
        "row 1 (from 0): the grade False is no number, or none of 64 bits.",
    ]
    assert messages([1_000_001, 1, -(2**63)]) == [
        "row 0 (from 0): the grade 1000001 is beyond 1,000,000; is it one?",
        "row 2 (from 0): the grade -9223372036854775808 is beyond 1,000,000; is it one?",
    ]
    null = ["row 1 (from 0): the grade null is no number, or none of 64 bits."]
    assert messages([1, None]) == null


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_pair_of_two_grades_is_refused_and_twenty_faults_are_told(make: Make) -> None:
    with pytest.raises(LabelsError) as caught:
        read_qrels(make({"qid": ["q"] * 30, "docid": ["d"] * 30, "rel": [1] + [2] * 29}))
    lines = [line.partition(": ")[2] for line in str(caught.value).splitlines()]
    assert lines[0] == "row 1 (from 0): judges document 'd' for query 'q', as row 0 does; give each pair one grade."
    assert lines[19].startswith("row 20 (from 0): ")
    assert lines[20:] == ["and 9 more like these."]


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
        with pytest.raises(RunFileError) as caught:
            read_runs(source)
        assert str(caught.value) == message


@given(st.lists(st.tuples(ids, ids, scores), min_size=1, max_size=12))
def test_a_parquet_file_says_what_its_table_says(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, float]]
) -> None:
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


def test_only_the_columns_that_matter_are_read_of_a_parquet_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"qid": [1], "docid": ["d"], "rel": [2], "text": [["nested", "list"]]}, index=["row"])
    frame.to_parquet(tmp_path / "a.parquet")
    assert qrels_rows(read_qrels(tmp_path / "a.parquet")) == {"1": {"d": 2}}


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    parquet.write_table(
        pa.table({"qid": ["q"] * 99, "docid": [str(n) for n in range(99)], "score": [0.5] * 99}), content
    )
    for cut in (content.getvalue()[:-20], b"PAR1", b"no parquet at all"):
        (tmp_path / "a.parquet").write_bytes(cut)
        with pytest.raises(RunFileError) as caught:
            read_runs(tmp_path / "a.parquet")
        (line,) = told(caught, tmp_path)
        assert line.startswith("a.parquet: is no Parquet file, or a damaged one: Parquet ")
        assert line.endswith(".")


def test_without_its_package_a_parquet_file_is_refused_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RunFileError) as caught:
        read_runs(tmp_path / "a.parquet")
    assert told(caught, tmp_path) == [
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


def test_a_table_of_a_kind_of_ones_own_is_still_a_table() -> None:
    class Mine(pd.DataFrame):  # type: ignore[misc] # pandas ships no types
        """A subclass."""

    assert run_rows(read_runs(Mine({"qid": ["q"], "docid": ["d"], "score": [1]}))[0]) == {"q": [("d", 1.0)]}


@pytest.mark.parametrize("queries", [2**16, 2**16 + 1])
def test_rows_of_many_queries_are_put_side_by_side(queries: int) -> None:
    numbers = np.tile(np.arange(queries)[::-1], 2)
    (run,) = read_runs(
        pd.DataFrame({"qid": numbers, "docid": np.arange(len(numbers)), "score": np.arange(len(numbers))})
    )
    assert run.queries[:2] == (str(queries - 1), str(queries - 2))
    assert run.values is not None
    np.testing.assert_array_equal(run.values.reshape(-1, 2), np.arange(2 * queries).reshape(2, -1).T)
    np.testing.assert_array_equal(run.starts, np.arange(0, 2 * queries + 1, 2))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"qid": ["q", [1]], "docid": ["d", "e"], "score": [1.0, 2.0]}),
        pl.DataFrame(
            {"qid": pl.Series(["q", [1]], dtype=pl.Object), "docid": ["d", "e"], "score": [1.0, 2.0]},
        ),
    ],
    ids=["pandas", "polars"],
)
def test_objects_that_are_no_ids_are_told_with_their_row(frame: object) -> None:
    with pytest.raises(RunFileError) as caught:
        read_runs(frame)
    assert str(caught.value) == (
        "the given DataFrame: row 1 (from 0): the query is [1]; an id is a string or a whole number."
    )


def test_complex_numbers_are_no_scores() -> None:
    frame = pd.DataFrame({"qid": ["q", "r"], "docid": ["d", "e"], "score": [1 + 2j, 2]})
    with pytest.raises(RunFileError) as caught:
        read_runs(frame)
    assert [line.partition(": ")[2] for line in str(caught.value).splitlines()] == [
        "row 0 (from 0): the score (1+2j) is no number, or none of 64 bits.",
        "row 1 (from 0): the score (2+0j) is no number, or none of 64 bits.",
    ]


def test_numbers_beyond_64_bits_are_read() -> None:
    large = pl.Series([2**100, 3], dtype=pl.Int128)
    (run,) = read_runs(pl.DataFrame({"qid": large, "docid": large, "score": large}))
    assert run_rows(run) == {str(2**100): [(str(2**100), float(2**100))], "3": [("3", 3.0)]}
    with pytest.raises(LabelsError, match=r"row 0 \(from 0\): the grade 1267\d+ is beyond 1,000,000; is it one\?$"):
        read_qrels(pl.DataFrame({"qid": ["q", "q"], "docid": ["d", "e"], "label": large}))


def test_runs_of_equal_ids_in_arrow_are_ids() -> None:
    ends = pa.RunEndEncodedArray.from_arrays([2, 3], ["q", "r"])
    (run,) = read_runs(pa.table({"qid": ends, "docid": ["a", "b", "c"], "score": [3.0, 2.0, 1.0]}))
    assert run_rows(run) == {"q": [("a", 3.0), ("b", 2.0)], "r": [("c", 1.0)]}


def test_scores_may_be_decimals_of_python() -> None:
    scores = [Decimal("1.5"), Decimal(2)]
    expected = {"q": [("d", 1.5), ("e", 2.0)]}
    columns = {"qid": ["q", "q"], "docid": ["d", "e"], "score": scores}
    rows = list(zip("qq", "de", scores, strict=True))
    mapping = {"q": dict(zip("de", scores, strict=True))}
    for source in (pd.DataFrame(columns), pa.table(columns), pl.DataFrame(columns), rows, mapping):
        assert run_rows(read_runs(source)[0]) == expected
    with pytest.raises(RunFileError, match=r"row 0 \(from 0\): the score Decimal"):
        read_runs([("q", "d", Decimal("sNaN"))])
