"""What can be read only once (pipes, standard input) is looked at and then read whole, as a file would be."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragtrial.errors import LabelsError, RunFileError
from ragtrial.scoring.score_runs import Scoring, score

pytestmark = pytest.mark.slow

QUERIES = {"small": 3, "large": 4000}  # the second beyond what is looked at and what a pipe holds


def grades(queries: int) -> dict[str, dict[str, int]]:
    return {f"q{query}": {f"d{query}": 1, f"e{query}": query % 3} for query in range(queries)}


def scores(queries: int) -> dict[str, dict[str, float]]:
    return {f"q{query}": {f"x{query}": 3.0, f"d{query}": 2.0, f"e{query}": 1.0} for query in range(queries)}


def trec_qrels(queries: int) -> bytes:
    return "".join(f"{q} 0 {d} {g}\n" for q, row in grades(queries).items() for d, g in row.items()).encode()


def trec_run(queries: int) -> bytes:
    return "".join(f"{q} Q0 {d} 1 {s} t\n" for q, row in scores(queries).items() for d, s in row.items()).encode()


def as_json(made: Callable[[int], Any]) -> Callable[[int], bytes]:
    return lambda queries: json.dumps(made(queries)).encode()


def as_jsonl(queries: int) -> bytes:
    rows = ({"qid": q, "docid": d, "score": s} for q, row in scores(queries).items() for d, s in row.items())
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@contextmanager
def piped(path: Path, content: bytes) -> Iterator[Path]:
    """A named pipe that ``content`` is written to, once."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield path
    writer.join(20)
    assert not writer.is_alive(), "the pipe was not read to its end"


def outcome(scoring: Scoring) -> tuple[Any, ...]:
    (run,) = scoring.runs
    return run.counts, run.per_query(), {name: (mean.mean, mean.n) for name, mean in run.scores.items()}


@pytest.mark.parametrize("size", QUERIES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("qrels", "run"),
    [(trec_qrels, trec_run), (as_json(grades), as_json(scores)), (trec_qrels, as_jsonl)],
    ids=["trec", "json", "jsonl"],
)
def test_named_pipes_give_the_scores_that_dicts_give(
    tmp_path: Path, size: str, packed: bool, qrels: Callable[[int], bytes], run: Callable[[int], bytes]
) -> None:
    queries = QUERIES[size]
    pack: Callable[[bytes], bytes] = gzip.compress if packed else bytes
    with piped(tmp_path / "a", pack(qrels(queries))) as judged, piped(tmp_path / "b", pack(run(queries))) as found:
        given = score(judged, found, "rr,ap")
    assert outcome(given) == outcome(score(grades(queries), scores(queries), "rr,ap"))
    assert given.runs[0].counts.rows == 3 * queries


def test_a_pipe_gives_what_is_written_then_but_no_labels(tmp_path: Path) -> None:
    for queries in (2, 3):
        with piped(tmp_path / "run", trec_run(queries)) as path:
            assert score(grades(5), path, "rr").runs[0].counts.rows == 3 * queries
        path.unlink()
    os.mkfifo(tmp_path / "run")
    for content in (b"no run\n", trec_run(4)):
        writer = threading.Thread(target=(tmp_path / "run").write_bytes, args=(content,), daemon=True)
        writer.start()
        if content == b"no run\n":
            with pytest.raises(RunFileError, match="has lines of 2 columns, such as 'no run'"):
                score(grades(5), tmp_path / "run", "rr")
        else:
            assert score(grades(5), tmp_path / "run", "rr").runs[0].counts.rows == 12
        writer.join()
    os.mkfifo(tmp_path / "qrels")
    for queries in (2, 3):
        threading.Thread(target=(tmp_path / "qrels").write_bytes, args=(trec_qrels(queries),), daemon=True).start()
        assert set(score(tmp_path / "qrels", scores(5), "rr").runs[0].per_query()) == set(grades(queries))
    content = b'{"queries": [{"id": 1, "text": "x", "relevant_docs": [{"doc": "d"}]}]}'
    with piped(tmp_path / "labels", content) as path, pytest.raises(LabelsError) as caught:
        score(path, {"1": {"d": 1.0}}, "rr")
    assert str(caught.value) == f"{path}: labels can only be read from a file: name it."


def command(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """``script`` of bash, in which ``score`` is ragtrial's; files q and r are qrels and a run."""
    (folder / "q").write_bytes(trec_qrels(4000))
    (folder / "r").write_bytes(trec_run(4000))
    start = f'score() {{ "{sys.executable}" -m ragtrial score "$@" --metrics rr --json -q; }}; '
    return subprocess.run(
        ["bash", "-c", start + script], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("script", [
    "score <(cat q) <(cat r)", "cat r | score q /dev/stdin", "cat r | score q -", "gzip -c r | score q -",
    "cat q | score /dev/stdin r", "score q <(head -c 5 r; sleep 0.5; tail -c +6 r)",
    "(head -c 5 r; sleep 0.5; tail -c +6 r) | score q -",
])  # fmt: skip
def test_the_shell_may_hand_in_pipes(tmp_path: Path, script: str) -> None:
    done = command(script, tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["scores"]["rr"] == {"mean": 0.5, "n": 4000}
