"""Kills runs at random moments of every stage, runs the same command again, and checks what was promised of that.

    python benchmarks/kill.py [--kills 60] [--stages NAME,...] [--seed 0] [--documents 1500]
                              [--queries 15] [--json PATH]

Every kill is a SIGKILL to a run of every kind of retriever and refiner in an empty workspace, beside the report of an
earlier run. An unkilled run is the control: it tells how long each stage takes and which numbers are right. After each
kill the same command runs to its end, and is compared with the control. Prints a table, and each promise that was not
kept with what was seen; the exit code is then 1.

The cross-encoder is a tiny one of the real class; its tokenizer is that of the extra `offline-model`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from killed_experiment import SHARED, write_experiment
from killed_runs import PARTIAL, STAGES, Run, apart, forked, half_made, import_libraries

if TYPE_CHECKING:
    from chromadb.api.client import Client


_MOST_ATTEMPTS = 10


@dataclass
class Kill:
    """A run that was killed, and what the next one made of it. ``failures`` are the promises that were not kept."""

    number: int
    stage: str
    after: float
    half_made: list[str] = field(default_factory=list)
    cached: int = 0
    resumed: bool = False
    kept: bool = False
    equal: bool = False
    clean: bool = False
    intact: bool = False
    failures: list[str] = field(default_factory=list)


class Control:
    """An unkilled run: its numbers, and how long each stage takes."""

    def __init__(self, folder: Path, documents: int, queries: int) -> None:
        self.folder = folder
        os.waitpid(forked(partial(write_experiment, folder, documents, queries)), 0)
        begins = self._timed()
        self.seconds = {
            stage: end - begin for (stage, begin), end in zip(begins.items(), [*begins.values()][1:], strict=False)
        }
        (self.report_folder,) = reports(folder)
        self.report = report_of(self.report_folder)
        self.asked = asked_questions(folder)
        self.texts = set(embedded_texts(folder)) - {query["text"] for query in self.report["queries"]}

    def _timed(self) -> dict[str, float]:
        run, begins = Run(self.folder), {}
        for stage in STAGES:
            if not run.wait_for(stage):
                sys.exit(f"the control did not come to {stage}: {run.lines}")
            begins[stage] = time.monotonic()
        while not (self.folder / "results" / "killed" / "latest").exists() and not run.is_over:
            time.sleep(0.0005)
        begins["end"] = time.monotonic()
        if code := run.end():
            sys.exit(f"the control ended with {code}: {run.lines}")
        return begins

    def copy(self, folder: Path, stage: str) -> None:
        """The same experiment in an empty workspace, and the control's report as that of an earlier run.

        The settings after the ``stage`` in which it is killed are left out: nothing of them has begun.
        """
        (folder / "results").mkdir(parents=True)
        for name in SHARED:
            shutil.copy2(self.folder / name, folder / name)
        shutil.copytree(self.folder / "results", folder / "results", dirs_exist_ok=True)
        if stage != "report":
            config = json.loads((folder / "config.json").read_text())
            names = settings_of(folder)
            for name in names[max(2, names.index(stage) + 1 if stage in names else 0) :]:
                del config["retrievers"][name]
            (folder / "config.json").write_text(json.dumps(config))


def reports(folder: Path) -> list[Path]:
    """The finished reports below ``folder``, by time."""
    return sorted(path for path in (folder / "results" / "killed").iterdir() if path.is_dir() and path.name[0] != ".")


def latest_of(folder: Path) -> str:
    return (folder / "results" / "killed" / "latest").read_text().strip()


def report_of(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def calls_of(folder: Path) -> list[list[str]]:
    """The texts of every call of the embedder."""
    path = folder / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def embedded_texts(folder: Path) -> list[str]:
    return [text for call in calls_of(folder) for text in call]


def cached_keys(folder: Path) -> set[bytes]:
    """The keys of all vectors that were committed, read from a copy: the next run should find what the kill left."""
    found: set[bytes] = set()
    with tempfile.TemporaryDirectory() as copied:
        for path in (folder / "workspace" / "vectors").glob("*.sqlite*"):
            if not path.name.endswith((".lock", "-shm")):
                shutil.copy2(path, copied)
        for path in Path(copied).glob("*.sqlite"):
            with closing(sqlite3.connect(path)) as database:
                made = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'vectors'").fetchone()
                if made[0]:
                    found |= {bytes(key) for (key,) in database.execute("SELECT key FROM vectors")}
    return found


def asked_questions(folder: Path) -> Counter[str]:
    """How often the function that finds documents was asked each question."""
    path = folder / "asked.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(text for line in lines for text in json.loads(line))


def answered_questions(folder: Path) -> set[str]:
    """The questions whose answers are kept whole: a checksum and the name of the file stand before each."""
    found = set()
    for path in (folder / "workspace" / "answers").glob("*.jsonl"):
        for line in path.read_bytes().split(b"\n"):
            checksum, _, named = line.partition(b" ")
            if named and checksum == b"%08x" % zlib.crc32(named):
                found.add(json.loads(named.partition(b" ")[2])["query"])
    return found


def key_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def finished_stages(folder: Path) -> dict[str, bytes]:
    """The seal of each finished stage of the workspace."""
    seals = (folder / "workspace").glob("*/*/stage.json")
    return {
        path.parent.relative_to(folder).as_posix(): path.read_bytes()
        for path in seals
        if not path.parent.name.startswith(PARTIAL)
    }


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def index_faults(folder: Path, vectors: int) -> Iterator[str]:
    """What the Chroma index lacks, read with Chroma itself from a copy, against the vectors that were embedded."""
    import chromadb
    from chromadb.config import Settings

    (matrix_file,) = (folder / "workspace" / "embeddings").glob("*/vectors.npy")
    matrix = np.load(matrix_file)
    (database,) = (folder / "workspace" / "indexes").glob("*/chroma.sqlite3")
    with tempfile.TemporaryDirectory() as copied:
        shutil.copytree(database.parent, copied, dirs_exist_ok=True)
        client = chromadb.PersistentClient(path=copied, settings=Settings(anonymized_telemetry=False))
        with cast("Client", client):
            (collection,) = client.list_collections()
            found = client.get_collection(collection.name, embedding_function=None).get(include=["embeddings"])
    order = np.argsort([int(name) for name in found["ids"]])
    if sorted(int(name) for name in found["ids"]) != list(range(vectors)):
        yield f"the index has {len(found['ids'])} of {vectors} vectors"
    elif found["embeddings"] is None or not np.allclose(np.asarray(found["embeddings"])[order], matrix, atol=1e-6):
        yield "the index has other vectors than were embedded"


def settings_of(folder: Path) -> list[str]:
    """The settings of an experiment."""
    return list(json.loads((folder / "config.json").read_text())["retrievers"])


def comparison_faults(report: Any, control: Any, settings: Sequence[str]) -> Iterator[str]:
    """How a report of these ``settings`` differs from the control's where it must not."""
    if report["failures"] or report["dataset"] != control["dataset"]:
        yield f"failures: {report['failures']}, dataset: {report['dataset']}"
    made, wanted = ({one["name"]: one for one in each["settings"]} for each in (report, control))
    parts = ("scores", "per_query", "counts", "health", "index")
    exact = (name for name in settings if name != "approximate")
    differing = [(name, part) for name in exact for part in parts if made[name][part] != wanted[name][part]]
    yield from (f"the setting {name} has other {part}" for name, part in differing)
    one, other = made["approximate"], wanted["approximate"]
    if one["index"]["vectors"] != other["index"]["vectors"] or one["health"] != other["health"]:
        yield f"the index is described as {one['index']}, {one['health']}"
    if one["audit"] is None:
        yield "the report has no audit of the index"
        return
    if one["audit"]["overlap"] < 0.9:
        yield f"the audit: {one['audit']}"
    # What exact search over the same vectors scores does not depend on the build of the index.
    for name, lost in one["audit"]["lost"].items():
        found = lost + one["scores"][name]["mean"]
        expected = other["audit"]["lost"][name] + other["scores"][name]["mean"]
        if abs(found - expected) > 1e-9:
            yield f"{name} of exact search is {found}, not {expected}"


def kill(control: Control, number: int, stage: str, after: float, folder: Path) -> Kill | None:
    """One kill, ``after`` seconds of ``stage``, and the run after it; None if the run was quicker than the kill."""
    made = Kill(number, stage, after)
    control.copy(folder, stage)
    run = Run(folder)
    if run.wait_for(stage):
        time.sleep(made.after)
    code = run.end(signal.SIGKILL)
    if code != -signal.SIGKILL:
        return None
    made.half_made = list(half_made(folder))
    cached, finished, answered = cached_keys(folder), finished_stages(folder), answered_questions(folder)
    asked = asked_questions(folder)
    before, calls = reports(folder), len(calls_of(folder))
    old = {report.name: files_of(report) for report in before}
    if latest_of(folder) not in old:
        made.failures.append(f"after the kill latest is {latest_of(folder)!r}")
    made.cached = len(cached)

    again = Run(folder)
    code = again.end()
    made.resumed = code == 0 and "Traceback" not in "\n".join(again.lines)
    if not made.resumed:
        made.failures.append(f"resumed: exit code {code}: {again.lines[-5:]}")
        return made
    kept = [f"embedded again: {what}" for what in _embedded_again(calls_of(folder)[calls:], cached, control)]
    again_asked = asked_questions(folder) - asked
    kept += [f"asked again: {text}" for text in answered if again_asked[text] >= control.asked[text]]
    seals = finished_stages(folder)
    kept += [f"made again: {name}" for name, seal in finished.items() if seals.get(name) != seal]
    made.kept = not kept
    new = [report for report in reports(folder) if report.name not in old]
    equal = [f"{len(new)} new reports"] if len(new) != 1 else []
    for report in new:
        equal += comparison_faults(report_of(report), control.report, settings_of(folder))
    vectors = next(one["health"]["vectors"] for one in control.report["settings"] if one["name"] == "approximate")
    equal += apart(partial(index_faults, folder, vectors))
    made.equal = not equal
    left = list(half_made(folder))
    made.clean = not left
    lost = [
        f"changed: {name}" for name, files in old.items() if files_of(folder / "results" / "killed" / name) != files
    ]
    if new:
        lost += _half_reports(old, new[-1], control)
        if latest_of(folder) != new[-1].name:
            lost.append(f"latest is {latest_of(folder)}, not {new[-1].name}")
    made.intact = not lost and not made.failures
    made.failures += [*kept, *equal, *(f"left: {name}" for name in left), *lost]
    return made


def _half_reports(old: Mapping[str, Mapping[str, bytes]], new: Path, control: Control) -> Iterator[str]:
    """The reports that stood there after the kill and were not whole: a ``new`` one of the same config is."""
    for name, files in old.items():
        if name == control.report_folder.name:
            if files != files_of(control.report_folder):
                yield f"after the kill the earlier report {name} is not what it was"
        elif files.keys() != files_of(new).keys():
            yield f"after the kill {name} has {sorted(files)}"


def _embedded_again(calls: Sequence[Sequence[str]], cached: set[bytes], control: Control) -> Iterator[str]:
    """Texts that had a vector when the run was killed; one may be embedded as a probe of the embedder.

    Single queries are embedded while latency is measured, whether or not they have a vector.
    """
    documents = [text for call in calls for text in call if text in control.texts and key_of(text) in cached]
    if len(documents) > 1:
        yield f"{len(documents)} texts of documents"
    queries = [text for call in calls if len(call) > 1 for text in call if text not in control.texts]
    if any(key_of(text) in cached for text in queries):
        yield f"{len(queries)} queries"


def table(kills: Sequence[Kill], seconds: dict[str, float]) -> str:
    """One line per stage: of how many kills each promise was kept."""
    header = ["stage", "seconds", "kills", "half-made", "resumed", "kept", "equal", "clean", "intact"]
    rows = [header]
    for stage in [*STAGES, "all"]:
        ours = [one for one in kills if stage in (one.stage, "all")]
        flags = [sum(getattr(one, name) for one in ours) for name in header[4:]]
        long = f"{seconds[stage]:.2f}" if stage in seconds else f"{sum(seconds.values()):.2f}"
        rows.append([stage, long, str(len(ours)), str(sum(bool(one.half_made) for one in ours)), *map(str, flags)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    )


MEANING = """\
half-made  something stood unfinished when the run was killed: it was killed inside a stage, not between two
resumed    the same command then ended with exit code 0
kept       no text whose vector was committed was embedded again (but one, as a probe), no finished stage made again,
           no question asked again whose answer was kept
equal      the exact setting's numbers are the control's; the index has all vectors, and its audit is in the report
clean      nothing half-made is left in the workspace or among the reports
intact     earlier reports are what they were, and `latest` always names a whole report"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--stages", default=",".join(STAGES), help="kill in these only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--documents", type=int, default=1_500)
    parser.add_argument("--queries", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write every kill to this file")
    parser.add_argument("--keep", action="store_true", help="keep the folders of kills after which something was wrong")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import_libraries()
    drawn = random.Random(options.seed)
    stages = options.stages.split(",")
    kills: list[Kill] = []
    start = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="ragtrial-kill-"))
    control = Control(work / "control", options.documents, options.queries)
    print(f"{len(control.texts):,} chunks to embed; one run takes {sum(control.seconds.values()):.1f} s and the start")
    missed = 0
    for number in range(options.kills):
        stage = stages[number % len(stages)]
        for attempt in range(_MOST_ATTEMPTS):
            folder = work / f"kill-{number}-{attempt}"
            # The control may have been slower, on a machine that had more to do: each time sooner.
            after = drawn.uniform(0, control.seconds[stage]) / 2**attempt
            made = kill(control, number, stage, after, folder)
            if made is not None:
                kills.append(made)
                for failure in made.failures:
                    print(f"kill {number}, {made.after:.3f} s into {stage}: {failure} ({folder})", flush=True)
            if made is None or not (made.failures and options.keep):
                shutil.rmtree(folder)
            if made is not None:
                break
            missed += 1
    print(f"\n{table(kills, control.seconds)}\n\n{MEANING}\n")
    print(f"{len(kills)} kills in {time.monotonic() - start:.0f} s, seed {options.seed}; {missed} came too late")
    if options.json:
        rows = {"seconds": control.seconds, "kills": [asdict(one) for one in kills], "missed": missed}
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if not options.keep:
        shutil.rmtree(work)
    return 1 if len(kills) < options.kills or any(one.failures for one in kills) else 0


if __name__ == "__main__":
    sys.exit(main())
