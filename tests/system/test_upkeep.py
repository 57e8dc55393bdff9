"""Looking after the workspace: what is listed, what may be removed and what is found damaged."""

import json
import os
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chroma_databases import chroma_server
from commands import Outcome
from corpora import write_files
from experiments import Experiment, write_experiment
from forked import forked_command
from ragtrial.cache.upkeep import Entry, Upkeep
from ragtrial.cache.workspace import Workspace
from ragtrial.errors import WorkspaceError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.run import RunOptions
from ragtrial.report.model import Report
from small_experiment import Capture, ragtrial, refused, succeeded

DAY = 86_400


def run(experiment: Experiment, *overrides: str) -> Report:
    return run_experiment(experiment.config(*overrides))


def scores(report: Report) -> dict[str, float | None]:
    return {name: score.mean for name, score in report.settings[0].scores.items()}


def names(entries: Iterable[Entry]) -> set[str]:
    return {f"{entry.kind}/{entry.path.stem}" for entry in entries}


def pruned(made: Experiment, /, **conditions: Any) -> list[Entry]:
    return [entry for entry, _ in Upkeep(made.workspace).prune(**conditions).removed]


def age(experiment: Experiment, days: float) -> None:
    """Make every use look as if it had been so many days earlier."""
    for path in (experiment.workspace / "uses").rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - days * DAY
            os.utime(path, (then, then))


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    made = write_experiment(tmp_path / "first", store={"kind": "chroma"})
    run(made)
    return made


def test_every_stage_is_listed_with_its_size_its_last_use_and_its_experiment(experiment: Experiment) -> None:
    entries = Upkeep(experiment.workspace).entries()
    kinds = sorted(entry.kind for entry in entries)
    assert kinds == [  # an index of Chroma, and the exact one that it is compared with
        "chunks", "documents", "embeddings", "indexes", "indexes", "lengths", "rankings", "rankings", "shares", "use",
        "vectors",
    ]  # fmt: skip
    newest = max(path.stat().st_mtime for path in experiment.workspace.glob("uses/kitchen@*/*-*"))
    for entry in entries:
        parts = [entry.path] if entry.path.is_file() else [path for path in entry.path.rglob("*") if path.is_file()]
        assert entry.size >= sum(path.stat().st_size for path in parts) > 0
        assert entry.experiments == entry.current == ("kitchen",)
        assert newest - 60 < entry.used <= newest
    assert [entry.size for entry in entries] == sorted((entry.size for entry in entries), reverse=True)
    told = {entry.kind: entry.what for entry in entries if entry.kind not in ("indexes", "rankings")}
    assert told["documents"] == "documents of documents"
    assert told["chunks"] == "chunks (recursive size=90 overlap=0 unit=characters)"
    assert told["embeddings"] == "embeddings (custom function=embedding:embed)"
    assert told["vectors"].endswith(" cached vectors (custom function=embedding:embed)")
    assert int(told["vectors"].split()[0]) == len(set(experiment.embedded()))


def test_a_large_cache_is_listed_with_what_makes_it_smaller(experiment: Experiment, capsys: Capture) -> None:
    (path,) = experiment.workspace.glob("chunks/*/start.npy")
    rest = sum(entry.size for entry in Upkeep(experiment.workspace).entries()) - path.stat().st_size
    for size in (20_000_000_000, 20_000_000_001):
        os.truncate(path, size - rest)  # the file is sparse
        listed = succeeded(capsys, "cache", "list", experiment.file)
        assert ("`ragtrial cache prune --older-than 30d`" in listed.out) == (size > 20e9)


def test_what_the_last_run_did_not_use_is_unused(experiment: Experiment) -> None:
    before = names(Upkeep(experiment.workspace).entries())
    report = run(experiment, "chunker.size=60")
    upkeep = Upkeep(experiment.workspace)
    fresh = names(upkeep.entries()) - before
    removed = names(pruned(experiment, unused=True))
    assert removed
    assert removed < before
    assert {name.partition("/")[0] for name in before - removed} == {"documents", "vectors"}
    assert names(upkeep.entries()) == fresh | (before - removed)
    embedded = experiment.embedded()
    assert scores(run(experiment, "chunker.size=60")) == scores(report)
    assert experiment.embedded() == embedded


def test_what_a_run_needed_that_did_not_finish_is_not_unused(experiment: Experiment) -> None:
    experiment.trouble("raise", after=len(experiment.embedded()) + 6)
    with pytest.raises(Exception, match="out of quota"):
        run(experiment, "chunker.size=60")
    experiment.no_trouble()
    kept = {entry.kind for entry in Upkeep(experiment.workspace).entries()}
    assert pruned(experiment, unused=True) == []
    assert {entry.kind for entry in Upkeep(experiment.workspace).entries()} == kept


def test_what_two_experiments_use_stays_when_one_of_them_goes(experiment: Experiment) -> None:
    age(experiment, 5)
    run(experiment, "experiment=pantry", "chunker.size=60")
    upkeep = Upkeep(experiment.workspace)
    shared = [entry for entry in upkeep.entries() if len(entry.experiments) == 2]
    both = names(shared)
    assert all(time.time() - entry.used < DAY for entry in shared)
    removed = pruned(experiment, experiment="pantry")
    assert {entry.experiments for entry in removed} == {("pantry",)}
    assert upkeep.experiments() == ["kitchen"]
    assert both <= names(upkeep.entries())
    assert all(entry.experiments == ("kitchen",) for entry in upkeep.entries())


def test_all_conditions_must_hold_and_a_dry_run_removes_nothing(experiment: Experiment) -> None:
    age(experiment, 40)
    run(experiment, "chunker.size=60")
    mine = {"chunks", "lengths", "embeddings", "indexes", "rankings", "use", "shares"}
    assert {entry.kind for entry in pruned(experiment, older_than=30 * DAY, dry=True)} == mine
    for conditions in ({"older_than": 50 * DAY}, {"unused": True, "experiment": "pantry"}):
        assert pruned(experiment, **conditions) == []
    run_experiment(experiment.config("chunker.size=60"), RunOptions(limit=2))  # is no reason to need less
    conditions = {"unused": True, "older_than": 30 * DAY, "experiment": "kitchen"}
    entries = pruned(experiment, **conditions, dry=True)
    assert {entry.kind for entry in entries} == mine
    assert names(pruned(experiment, **conditions)) == names(entries)


def test_latencies_alone_are_removed_and_measured_again(tmp_path: Path, capsys: Capture) -> None:
    experiment = write_experiment(tmp_path, latency=True)
    first = run_experiment(experiment.config()).settings[0].latency
    kept = experiment.stages()
    pruned = succeeded(capsys, "cache", "prune", experiment.file, "--latency", "--json").json
    assert [entry["kind"] for entry in pruned["removed"]] == ["latency"]
    assert {kind for kind, _ in kept - experiment.stages()} == {"latency"}
    second = run_experiment(experiment.config()).settings[0].latency
    assert first is not None
    assert second is not None
    assert first.p50 != second.p50


def test_what_a_killed_run_left_behind_is_removed_with_anything_else(experiment: Experiment) -> None:
    left = experiment.workspace / "embeddings" / f".partial-{'0' * 32}-abc"
    left.mkdir()
    (left / "vectors.npy").write_bytes(b"x" * 1000)
    upkeep = Upkeep(experiment.workspace)
    assert [entry.size for entry in upkeep.entries() if entry.kind == "unfinished"] == [1000]
    assert names(pruned(experiment, older_than=1000 * DAY)) == {f"unfinished/.partial-{'0' * 32}-abc"}
    assert not left.exists()


def test_nothing_is_removed_while_another_run_is_at_work(experiment: Experiment) -> None:
    at_work = Workspace(experiment.workspace)
    before = names(Upkeep(experiment.workspace).entries())
    upkeep = Upkeep(experiment.workspace)
    for remove in (partial(upkeep.prune, unused=True), upkeep.verify):
        with pytest.raises(WorkspaceError, match="another run is at work in the workspace"):
            remove()
    assert names(Upkeep(experiment.workspace).entries()) == before
    del at_work
    assert Upkeep(experiment.workspace).verify().removed == []


def test_nothing_of_the_users_is_touched(experiment: Experiment) -> None:
    kept = {
        "notes/plan.txt": "mine", "results/one/report.json": "{}", "documents/notes.md": "mine", "chunks/x/y": "mine",
        "vectors/mine.txt": "mine",
    }  # fmt: skip
    write_files(experiment.workspace, kept)
    age(experiment, 100)
    upkeep = Upkeep(experiment.workspace)
    assert upkeep.verify().removed == []
    assert pruned(experiment, older_than=DAY)
    assert {name: (experiment.workspace / name).read_text() for name in kept} == kept
    assert upkeep.entries() == []


def test_a_folder_with_other_things_becomes_no_workspace(tmp_path: Path) -> None:
    write_files(tmp_path, {"notes.txt": "mine"})
    with pytest.raises(WorkspaceError, match=r"holds other things \(notes.txt\) and is no workspace; name a new or an"):
        Workspace(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]


def test_experiments_of_one_name_in_two_folders_keep_what_each_needs(experiment: Experiment, tmp_path: Path) -> None:
    other = write_experiment(tmp_path / "other", store={"kind": "exact"})
    run(other, f"workspace={experiment.workspace}", "chunker.size=60")
    upkeep = Upkeep(experiment.workspace)
    assert pruned(experiment, unused=True) == []
    assert upkeep.experiments() == ["kitchen"]
    pruned(experiment, experiment="kitchen")
    assert upkeep.entries() == []


def flip(path: Path) -> None:
    """Change a byte in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def flip_a_vector(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        key, vector = database.execute("SELECT key, vector FROM vectors ORDER BY key LIMIT 1").fetchone()
        database.execute("UPDATE vectors SET vector = ? WHERE key = ?", (bytes(len(vector)), key))
        database.commit()


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("documents/*/texts.bin", flip),
        ("indexes/*/*/data_level0.bin", flip),
        ("indexes/*/chroma.sqlite3", lambda path: path.write_bytes(b"x" * path.stat().st_size)),
        ("chunks/*/stage.json", Path.unlink),
        ("vectors/*.sqlite", flip_a_vector),
        ("vectors/*.sqlite", lambda path: path.write_bytes(b"no database, but long enough to be taken for one" * 9)),
    ],
)
def test_damaged_stages_are_removed(experiment: Experiment, pattern: str, damage: Callable[[Path], Any]) -> None:
    before = scores(run(experiment))
    path = sorted(experiment.workspace.glob(pattern))[0]
    damage(path)
    upkeep = Upkeep(experiment.workspace)
    ((entry, why),) = upkeep.verify().removed
    assert path == entry.path or entry.path in path.parents
    assert why
    assert upkeep.verify().removed == []
    assert scores(run(experiment)) == before


def test_the_workspace_is_the_one_of_the_environment_else_of_the_folder_else_of_the_user(
    experiment: Experiment, own_cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(experiment.folder)
    none = f"error: there is no cache in {own_cache}; the first run makes it. Name a config to see the one it uses.\n"
    refused(capsys, "cache", "list", says=none)
    for folder in (own_cache, experiment.folder / ".ragtrial", experiment.workspace):
        Workspace(folder)
        if folder == experiment.workspace:
            monkeypatch.setenv("RAGTRIAL_WORKSPACE", str(folder))
        assert ragtrial(capsys, "cache", "list", "--json").json["workspace"] == str(folder)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "say what may go: --unused, --older-than AGE, --experiment NAME, --latency, or several of them."),
        (["--older-than", "soon"], "'soon' is no age; write hours, days or weeks like 12h, 30d, 4w."),
        (["--experiment", "kichen"],
         "no experiment 'kichen' has used {workspace}. Did you mean 'kitchen'? It has: kitchen."),
    ],
)  # fmt: skip
def test_an_unclear_removal_is_refused(
    experiment: Experiment, capsys: Capture, arguments: list[str], told: str
) -> None:
    told = told.format(workspace=experiment.workspace)
    refused(capsys, "cache", "prune", experiment.workspace, *arguments, says=told)
    assert len(Upkeep(experiment.workspace).entries()) == 11


def test_removing_says_how_much_went_and_checking_what_was_damaged(experiment: Experiment, capsys: Capture) -> None:
    run(experiment, "chunker.size=60")
    prune, verify = ("cache", "prune", experiment.file, "--unused"), ("cache", "verify", experiment.file)
    would = succeeded(capsys, *prune, "--dry-run", "--json").json
    assert would["dry_run"]
    out = succeeded(capsys, *prune).out
    assert f"\n{len(would['removed'])} entries, " in out
    assert f" removed from {experiment.workspace}" in out
    assert succeeded(capsys, *prune, "--json").json["removed"] == []
    (path,) = experiment.workspace.glob("chunks/*/start.npy")
    flip(path)
    checked = succeeded(capsys, *verify, "--json").json
    assert checked["checked"] == 11
    (damaged,) = checked["damaged"]
    assert (damaged["kind"], damaged["damage"]) == ("chunks", "start.npy has other bytes than it had")
    assert succeeded(capsys, *verify).out.endswith(f" checked in {experiment.workspace}; 0 damaged\n")


@pytest.mark.slow
def test_a_server_that_is_away_keeps_nothing_else_from_being_checked(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "server").mkdir()
    with chroma_server(tmp_path / "server") as port:
        store = {"kind": "chroma", "url": f"http://127.0.0.1:{port}"}
        retrievers = {"served": {"kind": "dense", "top_k": 3, "store": store}, "words": {"kind": "bm25", "top_k": 3}}
        experiment = write_experiment(tmp_path / "one", retrievers=retrievers)
        run_experiment(experiment.config())
        succeeded(capsys, "cache", "verify", experiment.file)
    (path,) = experiment.workspace.glob("bm25/*/indices.npy")
    flip(path)
    checked = ragtrial(capsys, "cache", "verify", experiment.file, "--json")
    (index,), (damaged,) = checked.json["unchecked"], checked.json["damaged"]
    assert (checked.code, index["kind"], damaged["kind"]) == (4, "indexes", "bm25")
    assert Path(index["path"]).is_dir()
    assert f"http://127.0.0.1:{port}" in index["why"]
    again = ragtrial(capsys, "cache", "verify", experiment.file)
    assert (again.code, "could not be checked, and is kept: " in again.err) == (4, True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a file system of a size, if this process may."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no mount command")
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    mounted: list[Path] = []
    yield mount
    for one in mounted:
        subprocess.run(["umount", "--lazy", str(one)], check=True)


def process(experiment: Experiment, workspace: Path, *options: str) -> Outcome:
    """A run in a process of its own: nothing of it is left open, or in memory."""
    return forked_command(experiment.folder, "run", str(experiment.file), "--set", f"workspace={workspace}", *options)


def wide(tmp_path: Path) -> Experiment:
    """An experiment whose stages grow: some hundred kilobytes of documents, more of vectors, more of an index."""
    documents = {f"{number}.txt": f"Loaf {number} of {number * 7} is warm.\n\n" * 40 for number in range(300)}
    queries = [{"id": "one", "text": "loaf 7", "relevant_docs": [{"doc": "7.txt"}]}]
    chunker = {"kind": "fixed", "size": 80, "overlap": 0, "unit": "characters"}
    embedder = {"kind": "custom", "function": "embedding:embed", "batch_size": 512}
    return write_experiment(
        tmp_path / "wide", documents, queries, chunker=chunker, embedder=embedder, store={"kind": "chroma"}
    )


def test_a_full_disk_is_named_and_leaves_nothing_in_part(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    experiment = wide(tmp_path)
    control = scores(run(experiment))
    earlier = {path: path.read_bytes() for path in (experiment.folder / "results").rglob("report.json")}
    disk = small_disk("size=150k")
    told: set[str] = set()
    size, made = 150.0, process(experiment, disk / "workspace")
    while made.code:
        assert made.code == 3, made.err
        assert "Traceback" not in made.err
        assert "should not" not in made.err
        error = made.err.splitlines()[-1]
        assert re.search("No space left on device|is full|Chroma cannot build or read the index", error)
        told |= {*re.findall("/(documents|vectors|indexes)/", error)}
        assert list((disk / "workspace").glob("*/.partial-*")) == []
        assert {path: path.read_bytes() for path in (experiment.folder / "results").rglob("report.json")} == earlier
        size *= 1.7
        assert size < 50_000
        subprocess.run(["mount", "-o", f"remount,size={size:.0f}k", str(disk)], check=True)
        made = process(experiment, disk / "workspace")
    assert told == {"documents", "vectors", "indexes"}
    newest = max((experiment.folder / "results").rglob("report.json"), key=lambda path: path.stat().st_mtime)
    found = json.loads(newest.read_text())["settings"][0]["scores"]
    assert {name: score["mean"] for name, score in found.items()} == pytest.approx(control, abs=1e-12)


def test_a_read_only_workspace_is_read_and_a_write_names_it(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    experiment = write_experiment(tmp_path / "first", store={"kind": "chroma"})
    disk = small_disk("size=50m")
    assert process(experiment, disk / "workspace").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    again = process(experiment, disk / "workspace")
    assert again.code == 0, again.err
    assert "embeddings" not in again.err
    other = process(experiment, disk / "workspace", "--set", "chunker.size=60")
    assert other.code == 3
    assert "Read-only file system. Free space, mend permissions, or name another folder" in other.err
    new = process(experiment, disk / "new")
    assert new.code == 3
    assert f"the workspace {disk / 'new'} cannot be used: Read-only file system." in new.err
