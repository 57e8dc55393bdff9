"""The .jsonl.gz files of a report: any tool reads them whole, and ragtrial reads single rows of them."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrial.errors import ReportError
from ragtrial.report.rows import ROWS_IN_MEMBER, read_numbered, read_rows, write_rows

ROWS = [
    {"number": number, "text": f"row {number}\u2028\r\n" * (number % 7)} for number in range(3 * ROWS_IN_MEMBER + 5)
]
VALUES = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rows") / "rows.jsonl.gz"
    write_rows(made, iter(ROWS))
    return made


def test_other_gzip_readers_read_the_whole_file(path: Path) -> None:
    unpacked = subprocess.run(["gzip", "-dc", str(path)], capture_output=True, check=True).stdout
    assert [json.loads(line) for line in unpacked.decode().split("\n")[:-1]] == ROWS
    assert subprocess.run(["gzip", "-t", str(path)], check=False).returncode == 0


def test_all_rows_are_read_in_order(path: Path) -> None:
    assert list(read_rows(path)) == ROWS


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


def test_only_the_members_of_the_wanted_rows_are_read(path: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(b"{}\n", mtime=0)])
def test_a_file_that_was_not_written_by_ragtrial_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=r"rows\.jsonl\.gz: cannot be read"):
        list(read_numbered(path, [0]))


def test_a_row_that_is_not_there_is_damage(path: Path) -> None:
    with pytest.raises(ReportError, match="cannot be read"):
        list(read_numbered(path, [len(ROWS)]))
    with pytest.raises(ReportError, match="cannot be read"):
        list(read_numbered(path, [10 * len(ROWS)]))


def test_a_row_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    write_rows(path, [[1]])  # type: ignore[list-item]
    with pytest.raises(ReportError, match="a row is not an object"):
        list(read_rows(path))
