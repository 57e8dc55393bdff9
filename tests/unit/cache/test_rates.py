"""Rates: how fast work went here, whatever becomes of the file."""

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from ragtrial.cache.bookkeeping import Rates


def note_many(path: Path, work: str) -> None:
    for _ in range(20):
        Rates(path).note(work, 10, 5)


def test_what_was_noted_last_counts_in_this_run_and_the_next(tmp_path: Path) -> None:
    rates = Rates(tmp_path / "rates.json")
    assert (rates.seconds("w", 4), rates.seconds("w", 0)) == (None, 0.0)
    rates.note("w", 10, 5)
    assert rates.seconds("w", 4) == 2.0
    rates.note("w", 5, 5)
    assert rates.seconds("w", 4) == 4.0
    rates.note("w", 0, 1)
    assert Rates(tmp_path / "rates.json").seconds("w", 4) == 4.0


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    with ProcessPoolExecutor(2) as processes:
        list(processes.map(note_many, [path, path], ["a", "b"]))
    assert json.loads(path.read_text())["kept"] == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"w": "a"}', '{"w": [1, 1]}', "\udcff"])
def test_a_damaged_file_holds_no_rates_and_is_written_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rates.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    rates = Rates(path)
    assert rates.seconds("w", 2) is None
    rates.note("w", 2, 4)
    assert Rates(path).seconds("w", 1) == 2.0
