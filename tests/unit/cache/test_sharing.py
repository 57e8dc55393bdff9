"""`ragtrial cache push` and `pull`: finished work travels over a folder, and over fsspec's memory."""

from __future__ import annotations

import json
import shutil
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from experiments import DOCUMENTS, Experiment, write_experiment
from ragtrial.cache.seals import check_bytes
from ragtrial.cache.sharing import SharedCache
from ragtrial.cache.vectors import VectorCache
from ragtrial.cache.workspace import Workspace
from ragtrial.experiment import run_experiment
from report_hits import hits_of
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]

RETRIEVERS = {
    "dense": {"kind": "dense", "top_k": 3, "store": {"kind": "chroma"}},
    "exact": {"kind": "dense", "top_k": 3, "store": {"kind": "exact"}},
    "words": {"kind": "bm25", "top_k": 3},
}


@dataclass(frozen=True)
class Shared:
    """A place to push to, and the files there."""

    url: str

    @property
    def files(self) -> dict[str, bytes]:
        system, root = fsspec.core.url_to_fs(self.url)
        return {path: system.cat_file(path) for path in system.find(root)}

    def change(self, path: str, content: bytes | None) -> None:
        system, _ = fsspec.core.url_to_fs(self.url)
        if content is None:
            system.rm_file(path)
        else:
            system.pipe_file(path, content)


@pytest.fixture(params=["folder", "memory"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shared]:
    made = Shared(str(tmp_path / "shared") if request.param == "folder" else f"memory://{uuid.uuid4().hex}")
    yield made
    if request.param == "memory":
        fsspec.filesystem("memory").store.clear()


@pytest.fixture
def first(tmp_path: Path) -> Experiment:
    made = write_experiment(tmp_path / "first", retrievers=RETRIEVERS)
    run_experiment(made.config())
    return made


def copy_of(first: Experiment, folder: Path) -> Experiment:
    """The same experiment on another machine: nothing is there but its files."""
    return write_experiment(folder, retrievers=RETRIEVERS)


def sealed(made: Experiment) -> set[tuple[str, str]]:
    """Kind and name of every finished stage that may travel."""
    found = (seal.parent for seal in made.workspace.glob("*/*/stage.json"))
    return {(folder.parent.name, folder.name) for folder in found if folder.parent.name != "latency"}


def push(capsys: Capture, shared: Shared, workspace: Path, *options: str, code: int = 0) -> dict[str, Any]:
    done = ragtrial(capsys, "cache", "push", shared.url, str(workspace), "--json", *options)
    assert done.code == code, done.err
    return dict(done.json)


def pull(capsys: Capture, shared: Shared, workspace: Path, *options: str, code: int = 0) -> dict[str, Any]:
    done = ragtrial(capsys, "cache", "pull", shared.url, str(workspace), "--json", *options)
    assert done.code == code, done.err
    return dict(done.json)


def test_another_machine_makes_nothing_again(
    first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    push(capsys, shared, first.workspace)
    second = copy_of(first, tmp_path / "second")
    pull(capsys, shared, second.workspace)
    fetched = sealed(second)
    assert fetched == sealed(first)
    assert "bm25" in {kind for kind, _ in fetched}
    for kind, name in fetched:
        assert check_bytes(second.workspace / kind / name).id == check_bytes(first.workspace / kind / name).id
    report, wanted = run_experiment(second.config()), run_experiment(first.config())
    assert sealed(second) == fetched
    assert second.embedded() == []
    for name in RETRIEVERS:
        assert hits_of(report, name) == hits_of(wanted, name)


def test_what_is_there_is_neither_sent_nor_fetched_again(
    first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    sent = push(capsys, shared, first.workspace)
    assert sent["bytes"] > 0
    before = shared.files
    again = push(capsys, shared, first.workspace)
    assert (again["sent"], again["bytes"], len(again["present"])) == ([], 0, len(sent["sent"]))
    assert shared.files == before
    workspace = tmp_path / "second"
    fetched = pull(capsys, shared, workspace)
    again = pull(capsys, shared, workspace)
    assert (again["fetched"], again["bytes"], len(again["present"])) == ([], 0, len(fetched["fetched"]))


def test_a_push_that_was_stopped_continues(first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture) -> None:
    """Some files have arrived, and some in part; what lists others comes after them."""
    push(capsys, shared, first.workspace)
    whole = shared.files
    for place, path in enumerate(sorted(whole)):
        if place % 3 == 0 or path.endswith(".keys"):
            shared.change(path, None)
        elif place % 3 == 1:
            shared.change(path, whole[path][: len(whole[path]) // 2])
    push(capsys, shared, first.workspace)
    assert {path: content for path, content in shared.files.items() if "/rows/" not in path} == {
        path: content for path, content in whole.items() if "/rows/" not in path
    }
    workspace = tmp_path / "second"
    pull(capsys, shared, workspace)
    for kind, name in first.stages():
        if kind != "latency":
            check_bytes(workspace / kind / name)
    (vectors,) = (first.workspace / "vectors").glob("*.sqlite")
    with VectorCache(vectors) as own, VectorCache(workspace / "vectors" / vectors.name) as fetched:
        keys = own.keys_in_database()
        np.testing.assert_array_equal(fetched.read(keys), own.read(keys))


def shards_of(workspace: Path) -> list[str]:
    return sorted(path.name for path in workspace.glob("vectors/*.shards/[!.]*"))


def test_shards_of_a_large_cache_travel_one_by_one(
    first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    (path,) = (first.workspace / "vectors").glob("*.sqlite")
    with VectorCache(path) as own:
        keys = own.keys_in_database()
        vectors, probe = own.read(keys), own.probe()
        own.compact(1, rows_per_shard=5)
    wanted = shards_of(first.workspace)
    assert len(wanted) == round(len(keys) / 5) > 1
    assert push(capsys, shared, first.workspace)["bytes"] > vectors.nbytes
    assert push(capsys, shared, first.workspace)["bytes"] == 0
    (lost,) = (name for name in shared.files if name.endswith(f"/{wanted[0]}.json"))
    content = shared.files[lost]
    shared.change(lost, None)
    workspace = tmp_path / "second"
    pull(capsys, shared, workspace)
    assert shards_of(workspace) == wanted[1:]
    shared.change(lost, content)
    pull(capsys, shared, workspace)
    assert shards_of(workspace) == wanted
    assert pull(capsys, shared, workspace)["bytes"] == 0
    with VectorCache(workspace / "vectors" / path.name) as fetched:
        np.testing.assert_array_equal(fetched.read(keys), vectors)
        found = fetched.probe()
    assert probe is not None
    assert found is not None
    assert found[0] == probe[0]
    assert found[1].tobytes() == probe[1].tobytes()
    second = copy_of(first, tmp_path / "second copy")
    shutil.copytree(workspace, second.workspace)
    shutil.rmtree(second.workspace / "embeddings")
    run_experiment(second.config())
    assert second.embedded() == []


@pytest.mark.parametrize("what", ["flipped", "cut", "missing"])
def test_a_damaged_object_is_refused_by_name_and_sent_again_on_request(
    what: str, first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    push(capsys, shared, first.workspace)
    whole = shared.files
    path = max((path for path in whole if "/objects/" in path), key=lambda path: len(whole[path]))
    content = whole[path]
    flipped = bytes([*content[:-1], content[-1] ^ 1])
    shared.change(path, {"flipped": flipped, "cut": content[:-1], "missing": None}[what])
    workspace = tmp_path / "second"
    found = pull(capsys, shared, workspace, code=3)
    assert found["damaged"]
    assert all(path.rpartition("/")[2] in one["why"] for one in found["damaged"])
    for kind, name in ((entry.parent.name, entry.name) for entry in workspace.glob("*/[0-9a-f]*") if entry.is_dir()):
        check_bytes(workspace / kind / name)
    push(capsys, shared, first.workspace, "--verify")
    assert shared.files == whole
    assert pull(capsys, shared, workspace)["damaged"] == []


def test_lists_of_files_that_are_damaged_or_lead_elsewhere_are_refused(
    first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    from ragtrial.cache.fingerprints import fingerprint

    push(capsys, shared, first.workspace)
    damaged, evil, *_ = sorted(path for path in shared.files if "/stages/" in path)
    shared.change(damaged, shared.files[damaged].replace(b'"', b"'", 1))
    found = json.loads(shared.files[evil])
    found["files"] = {"../../evil": next(iter(found["files"].values()))}
    del found["checksum"]
    shared.change(evil, json.dumps({**found, "checksum": fingerprint(found)}).encode())
    workspace = tmp_path / "deep" / "second"
    reasons = [one["why"] for one in pull(capsys, shared, workspace, code=3)["damaged"]]
    assert any("its list of files is damaged" in why for why in reasons)
    assert any("outside of the stage" in why for why in reasons)
    assert not list(tmp_path.rglob("evil"))


def test_vectors_travel_row_by_row(first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture) -> None:
    """Two machines embed other documents; a third one that has both embeds nothing."""
    push(capsys, shared, first.workspace)
    more = {**DOCUMENTS, "tea.txt": "Green tea wants water that no longer boils."}
    second = write_experiment(tmp_path / "second", documents=more, retrievers=RETRIEVERS)
    pull(capsys, shared, second.workspace)
    run_experiment(second.config())
    assert len([text for text in second.embedded() if "tea" not in text]) == 1  # whether the function is the same
    push(capsys, shared, second.workspace)
    third = write_experiment(tmp_path / "third", documents={**more, "new.txt": "A page."}, retrievers=RETRIEVERS)
    pull(capsys, shared, third.workspace)
    run_experiment(third.config())
    assert len([text for text in third.embedded() if "page" not in text]) == 1


def test_only_what_an_experiment_used_is_fetched_on_request(
    first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    push(capsys, shared, first.workspace)
    other = ragtrial(capsys, "cache", "pull", shared.url, str(tmp_path / "second"), "--experiment", "kitchn")
    said = f"error: {shared.url} has no stages of the experiment 'kitchn'. Did you mean 'kitchen'? It has: kitchen.\n"
    assert other.code == 2
    assert said in other.err
    assert not list((tmp_path / "second").glob("*/*"))
    assert pull(capsys, shared, tmp_path / "second", "--experiment", "kitchen")["fetched"] != []


def test_an_empty_url_has_nothing_and_a_strange_one_is_refused(tmp_path: Path, capsys: Capture) -> None:
    nothing = ragtrial(capsys, "cache", "pull", f"memory://{uuid.uuid4().hex}", str(tmp_path / "workspace"))
    assert nothing.out.startswith("0 entries fetched, 0 B; 0 there already")
    assert "warning: there is nothing at memory://" in nothing.err
    strange = ragtrial(capsys, "cache", "push", "foo://bucket/x", str(tmp_path / "workspace"))
    assert (strange.code, strange.err) == (2, "error: foo://bucket/x cannot be used: Protocol not known: foo\n")


def test_a_password_in_a_url_is_in_no_message(tmp_path: Path, capsys: Capture) -> None:
    with socket.socket() as closed:  # bound, and not listening: whoever connects is refused
        closed.bind(("127.0.0.1", 0))
        url = f"ftp://me:pass@word@127.0.0.1:{closed.getsockname()[1]}/x"
        away = ragtrial(capsys, "cache", "pull", url, str(tmp_path / "workspace"))
    assert away.code == 3
    assert away.err.startswith("error: cannot reach ftp://me:***@127.0.0.1:")
    strange = ragtrial(capsys, "cache", "pull", "foo://me:pass@word@host/x", str(tmp_path / "workspace"))
    assert strange.err == "error: foo://me:***@host/x cannot be used: Protocol not known: foo\n"


def test_a_file_is_no_place_to_pull_from(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("no folder")
    made = ragtrial(capsys, "cache", "pull", str(tmp_path / "file"), str(tmp_path / "workspace"))
    assert (made.code, made.err) == (2, f"error: {tmp_path}/file is a file; name a folder.\n")


def test_a_place_that_cannot_be_written_is_named(first: Experiment, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("no folder")
    done = ragtrial(capsys, "cache", "push", str(tmp_path / "file" / "x"), str(first.workspace))
    assert done.code == 3
    assert f"{tmp_path}/file/x" in done.err
    assert "Traceback" not in done.err


def test_a_stage_that_is_there_stays_as_it_is(
    first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    push(capsys, shared, first.workspace)
    workspace = Workspace(tmp_path / "second")
    kind, name = next(iter(first.stages()))

    def build(folder: Path) -> None:
        (folder / "own").write_text("mine")

    workspace.stage(kind, name, "mine", build)
    SharedCache(shared.url).pull(workspace)
    assert (tmp_path / "second" / kind / name / "own").read_text() == "mine"
