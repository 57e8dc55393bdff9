"""The .jsonl.gz files of a report: any tool reads them whole, and ragtrial reads single rows of them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrial.errors import ReportError
from ragtrial.report.rows import ROWS_IN_MEMBER, _member, read_numbered, read_rows, write_rows

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
