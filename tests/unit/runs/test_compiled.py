"""The compiled code and plain Python split alike, joins are those of rows one by one; no library is stale."""

import ctypes
import logging
import math
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import plain_runs
from ragtrial.errors import RagtrialError, RunFileError
from ragtrial.runs import compiled
from ragtrial.runs.compiled import building
from ragtrial.runs.compiled.library import library, load
from ragtrial.runs.inputs import read_qrels
from ragtrial.runs.joins import in_order, match
from ragtrial.runs.qrels import PackedIds, Qrels, Run
from run_files import columns_of, outcome
from run_strategies import files, msmarco_rows, qrels_rows, trec_rows

pytestmark = pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler, so no compiled code")

QRELS = Qrels.of(
    [
        ("q3", [("d1", 1), ("D1234567", 2)], False),
        ("q1", [("d1", 1), ("d2", 0), ("x" * 17, 3), ("d\udcff", 1), ("z" * 90, 1), ("d", 1)], False),
        ("q2", [("d1", -1)], False),
        ("\udcff", [("d#3", 1)], False),
        ("q" * 70, [(f"d{number}", 1) for number in range(50)], False),
        ("nobody", [], False),
    ]
)


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """What ``work`` gives with the compiled code and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAGTRIAL_COMPILED", raising=False)
        assert compiled.compiled_library() is not None, "build it: python -m ragtrial.runs.compiled.building"
        one = work()
        patch.setenv("RAGTRIAL_COMPILED", "0")
        assert compiled.compiled_library() is None
        return one, work()


def run_outcomes(content: bytes, **options: Any) -> tuple[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.run")
        path.write_bytes(content)
        return both(lambda: outcome(path, QRELS, **options))


def qrels_outcome(path: Path) -> Any:
    """The qrels of a file as values, or what is wrong with it."""
    try:
        qrels = read_qrels(path, form="trec")
    except RagtrialError as error:
        return str(error)
    documents = [qrels.documents[row] for row in range(len(qrels.documents))]
    return qrels.queries, documents, qrels.judgments.grades.tolist(), qrels.judgments.starts.tolist()


@settings(max_examples=60)
@given(files(qrels_rows(is_sound=False)))
def test_qrels_are_those_that_python_reads_and_so_are_their_faults(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "qrels")
        path.write_bytes(content)
        one, other = both(lambda: qrels_outcome(path))
    assert one == other


OPTIONS = {
    "duplicates": st.sampled_from(["error", "first"]),
    "lenient": st.booleans(),
    "threads": st.sampled_from([1, 2]),
    "block_size": st.sampled_from([16, 33, 64, 100, 257, 2**20]),
}


@settings(max_examples=60)
@given(
    content=files(trec_rows()) | files(trec_rows(is_sound=False)),
    order=st.sampled_from(["score", "trec", "rank", "file"]),
    options=st.fixed_dictionaries(OPTIONS),
)
def test_trec_runs_are_read_as_in_python(content: bytes, order: str, options: dict[str, Any]) -> None:
    one, other = run_outcomes(content, order=order, **options)
    assert one == other


@pytest.mark.parametrize("hits", [17_000])
def test_a_document_that_comes_twice_is_found_among_many(hits: int) -> None:
    rows = [(f"q{query}", f"d{hit}") for query in (1, 2) for hit in range(hits)]
    rows = [*rows, ("q2", "d7"), ("q3", "d7")]
    content = "".join(f"{query} 0 {hit} {at} {-at} t\n" for at, (query, hit) in enumerate(rows)).encode()
    options = {"order": "score", "lenient": False, "threads": 1, "block_size": 2**20}
    for duplicates in ("error", "first"):
        one, other = run_outcomes(content, duplicates=duplicates, **options)
        assert one == other
        assert f"line {hits + 8} does" in str(one) or duplicates == "first"


@settings(max_examples=60)
@given(
    content=files(msmarco_rows()) | files(msmarco_rows(is_sound=False)),
    order=st.sampled_from(["rank", "file"]),
    options=st.fixed_dictionaries(OPTIONS),
)
def test_ms_marco_runs_are_read_as_in_python(content: bytes, order: str, options: dict[str, Any]) -> None:
    one, other = run_outcomes(content, form="msmarco", order=order, **options)
    assert one == other


def values_of(found: Any) -> Any:
    """The columns as plain lists, without names; errors as they are."""
    if isinstance(found, str):
        return found
    plain = {name: value[1] if isinstance(value, tuple) and len(value) == 2 else value for name, value in found.items()}
    return {name: value for name, value in plain.items() if name != "unknown_names"}


@settings(max_examples=60)
@given(
    content=files(trec_rows()),
    order=st.sampled_from(["score", "trec", "rank", "file"]),
    block_size=st.sampled_from([33, 257, 2**20]),
)
def test_trec_runs_are_joined_as_row_by_row(content: bytes, order: str, block_size: int) -> None:
    one, _ = run_outcomes(content, order=order, duplicates="first", block_size=block_size)
    if not isinstance(one, str):
        content = content.removeprefix(b"\xef\xbb\xbf")
        assert values_of(one) == plain_runs.joined(plain_runs.rows_in(content), QRELS, order, has_scores=True)


def same_hashes() -> Callable[[PackedIds], Any]:
    """A hash that tells few documents apart."""
    return lambda ids: (np.diff(ids.ends, prepend=0) % 3).astype(np.uint64)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 3)), max_size=30),
    order=st.sampled_from(["score", "trec", "file"]),
)
def test_ids_of_one_hash_are_an_error_and_never_taken_for_one(rows: list[tuple[int, int, int]], order: Any) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    starts = np.searchsorted([query for query, _, _ in rows], np.arange(5)).astype(np.int64)
    documents = PackedIds.of(f"d{number}" for _, number, _ in rows)
    run = Run("r", ("q1", "u", "q3", "q" * 70), starts, documents, np.array([float(value) for _, _, value in rows]))
    expected, best = plain_runs.joined(plain_runs.rows_of(run), QRELS, order, has_scores=True), in_order(run, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragtrial.runs.lines.hasher", same_hashes)
        with suppress(RunFileError):
            assert list(in_order(run, order).documents) == list(best.documents)
        with suppress(RunFileError):
            assert values_of(columns_of(match(run, QRELS, order=order, duplicates="first"))) == expected


def test_two_documents_of_one_hash_are_named_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtrial.runs.lines.hasher", same_hashes)
    run = Run("r", ("q1",), np.array([0, 1]), PackedIds.of(["d7"]), None)
    with pytest.raises(RunFileError, match=r"^two documents have the same hash of 64 bits.*RAGTRIAL_COMPILED=0"):
        match(run, QRELS, order="score", duplicates="first")


@given(content=st.binary(max_size=300), options=st.fixed_dictionaries(OPTIONS))
def test_any_bytes_are_read_as_in_python(content: bytes, options: dict[str, Any]) -> None:
    one, other = run_outcomes(content, **options)
    assert one == other


VALUES = st.sampled_from([0.0, -0.0, 1.5, -2.0, -1e300, math.inf, -math.inf]) | st.floats(-9, 9)


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), VALUES), unique_by=lambda row: row[:2])
    | st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), VALUES)),
    order=st.sampled_from(["score", "trec", "file"]),
    duplicates=st.sampled_from(["error", "first"]),
    values=st.sampled_from(["scores", "ranks", "none"]),
)
def test_runs_in_memory_are_alike(rows: list[tuple[int, int, float]], order: Any, duplicates: Any, values: str) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    names = ["q1", "u1", "q2", "q" * 70, "u2", "\udcff"]
    starts = np.searchsorted([query for query, _, _ in rows], np.arange(7))
    column = None if values == "none" else np.array([value for _, _, value in rows], dtype=np.float64)
    documents = PackedIds.of(f"d{document}" for _, document, _ in rows)
    run = Run("r", tuple(names), starts.astype(np.int64), documents, column, values == "ranks")

    def joined() -> Any:
        try:
            return columns_of(match(run, QRELS, order=order, duplicates=duplicates))
        except RagtrialError as error:
            return str(error)

    one, other = both(joined)
    assert one == other
    if not isinstance(one, str):
        own = "file" if values == "none" else "rank" if values == "ranks" else order
        plain = plain_runs.joined(plain_runs.rows_of(run), QRELS, own, has_scores=values == "scores")
        assert values_of(one) == plain


def random_decimals(count: int) -> list[bytes]:
    """Decimals of every kind that is hard: long, halfway between doubles, tiny, huge."""
    generator = random.Random(11)
    texts = []
    for _ in range(count):
        double = struct.unpack("<d", generator.randbytes(8))[0]
        if not math.isfinite(double):
            continue
        near = generator.uniform(-1000, 1000)
        digits = generator.randrange(10 ** generator.randrange(1, 25))
        texts += [
            repr(double),
            repr(near),
            f"{near:.6f}",
            f"{near:.17g}",
            f"{double:.{generator.randrange(0, 25)}e}",
            f"{digits}e{generator.randrange(-345, 320)}",
            f"{generator.choice('+-')}0.{'0' * generator.randrange(20)}{digits}",
            f"{digits}.{generator.randrange(10**9)}",
            f"{2**53 + generator.randrange(2**10)}.5",
            f"{(2**53 + generator.randrange(1000)) * 2 ** generator.randrange(1, 9) + 2 ** generator.randrange(0, 8)}",
        ]
    return [text.encode() for text in texts]


EDGES = b"""1e400 -1e400 1e-400 5e-324 2.4703282292062327e-324 2.4703282292062328e-324 0e999999999999
1.7976931348623157e308 1.7976931348623159e308 2.2250738585072011e-308 2.2250738585072014e-308
9007199254740993 9007199254740992.9999999999999999 -0 00000000000000000000000000000.1
1e99999999999999999999 1e-99999999999999999999""".split()
LONG = [b"1" + b"0" * 400, b"0." + b"0" * 400 + b"1", b"9" * 800, b"0" * 100 + b"1.5"]


@pytest.mark.slow
def test_scores_are_the_doubles_that_python_reads_bit_for_bit() -> None:
    loaded = library()
    assert loaded is not None
    value = ctypes.c_double()

    def read(text: bytes) -> float | None:
        return None if loaded.rt_score(text + b"\n", len(text), ctypes.byref(value)) else value.value

    texts = [*EDGES, *LONG, *random_decimals(15_000)]
    assert len(texts) > 100_000
    wrong = [(text, score) for text in texts if repr(score := read(text)) != repr(float(text))]
    assert wrong == []


@pytest.mark.slow
def test_a_library_of_other_sources_is_logged_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert building.sources() == sorted(building.sources())
    for source in building.sources():
        shutil.copy(source, tmp_path)
    target = tmp_path / building.NAME
    building.build(target, folder=tmp_path)
    assert building.is_current(target, tmp_path)
    assert load(target, tmp_path) is not None
    (tmp_path / "split.c").write_text("/* newer */", encoding="utf-8")
    assert not building.is_current(target, tmp_path)
    with caplog.at_level(logging.WARNING):
        assert load(target, tmp_path) is None
    assert caplog.messages == [
        f"{target} was built from other sources than are here; scoring goes on in plain Python, slower, until it is "
        "built anew: python -m ragtrial.runs.compiled.building"
    ]
    assert load(target, tmp_path / "..") is not None, "without sources, as when installed, there is nothing to compare"


def test_a_file_that_is_no_library_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / building.NAME).write_bytes(b"not a library")
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path / building.NAME) is None
    assert "cannot be loaded" in caplog.text


def test_a_compiler_that_refuses_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(OSError, match="false cannot build it"):
        building.build(tmp_path / building.NAME)
    command = subprocess.run([sys.executable, "-m", building.__name__], capture_output=True, text=True, check=False)
    assert command.stderr.endswith("OSError: false cannot build it: \n")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="there is no C compiler"):
        building.build(tmp_path / building.NAME)
    assert list(tmp_path.iterdir()) == []


def sanitizers() -> str:
    """Where the compiler's address sanitizer is, to be loaded before Python."""
    command = [*(building.compiler() or []), "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.slow
def test_no_bytes_make_the_compiled_code_read_or_write_beyond_its_memory(tmp_path: Path) -> None:
    flags = ("-std=c11", "-O1", "-g", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    if not Path(sanitizers()).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    target = tmp_path / building.NAME
    building.build(target, flags)
    program = Path(__file__).parents[2] / "support" / "fuzz_compiled.py"
    ran = subprocess.run(
        [sys.executable, str(program), str(target), str(tmp_path), "150"],
        env={
            "PATH": "/usr/bin:/bin", "LD_PRELOAD": sanitizers(), "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
            "PYTHONPATH": str(Path(compiled.__file__).parents[3]),
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, "150 rounds"), ran.stderr[-4000:]
