"""`ragtrial cache push` and `pull`: finished work travels over a folder, over fsspec's memory, and over S3."""

import re
import shutil
import socket
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from commands import commands_of
from experiments import DOCUMENTS, Experiment, write_experiment
from local_servers import local_server
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.cache.seals import check_bytes
from ragtrial.cache.sharing import SharedCache, Transfer
from ragtrial.cache.upkeep import Upkeep
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.cache.workspace import Workspace
from ragtrial.experiment import run_experiment
from report_hits import hits_of
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]

BUCKET, KEY, SECRET = "team", "AKIA-OF-THE-TESTS", "s3cr3t/of+the/tests"
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
        system.invalidate_cache()
        return {path: system.cat_file(path) for path in system.find(root)}

    def change(self, path: str, content: bytes | None) -> None:
        system, _ = fsspec.core.url_to_fs(self.url)
        if content is None:
            system.rm_file(path)
        else:
            system.pipe_file(path, content)


@dataclass(frozen=True)
class S3:
    """Moto's server of S3 on this machine; ``log`` has a line for each request."""

    url: str
    log: Path

    def reach(self, patch: pytest.MonkeyPatch) -> None:
        """Let clients find it, and its keys, where those of AWS look."""
        patch.setenv("AWS_ENDPOINT_URL", self.url)
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    def asked(self, pattern: str) -> list[str]:
        """The requests so far that the pattern describes."""
        return re.findall(pattern, self.log.read_text())

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """All keys are refused meanwhile."""
        self._check_keys(after=0)
        try:
            yield
        finally:
            self._check_keys(after=1_000_000)

    def _check_keys(self, after: int) -> None:
        """Check keys after so many requests: https://docs.getmoto.org/en/latest/docs/iam.html."""
        body, plain = str(after).encode(), {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/moto-api/reset-auth", body, plain)).close()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    log, serve = tmp_path_factory.mktemp("s3") / "log.txt", [sys.executable, "-m", "moto.server", "-H", "127.0.0.1"]
    with local_server(lambda port: [*serve, "-p", str(port)], log, answers="moto-api/") as url:
        bucket = urllib.request.Request(f"{url}/{BUCKET}", method="PUT", headers={"Authorization": "AWS x:y"})
        urllib.request.urlopen(bucket).close()
        yield S3(url, log)
        fsspec.filesystem("s3").clear_instance_cache()  # clients keep the address of their server


@pytest.fixture(params=["folder", "memory", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    if request.param == "s3":
        request.getfixturevalue("s3").reach(monkeypatch)
        yield Shared(f"s3://{BUCKET}/{uuid.uuid4().hex}")
        return
    yield Shared(str(tmp_path / "shared") if request.param == "folder" else f"memory://{uuid.uuid4().hex}")
    fsspec.filesystem("memory").store.clear()


quickly = pytest.mark.parametrize("shared", ["folder", "memory"], indirect=True)
"""For what is of our own making, whatever the other side is: S3's client takes a tenth of a second for ten files."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Experiment]:
    """An experiment of all retrievers, and one with fewer files."""
    chosen = {"first": RETRIEVERS, "little": {"exact": RETRIEVERS["exact"]}}
    folder = tmp_path_factory.mktemp("finished")
    made = {name: write_experiment(folder / name, retrievers=retrievers) for name, retrievers in chosen.items()}
    for experiment in made.values():
        run_experiment(experiment.config())
    return made


@pytest.fixture
def first(finished: dict[str, Experiment], tmp_path: Path) -> Experiment:
    return Experiment(shutil.copytree(finished["first"].folder, tmp_path / "first"))


@pytest.fixture
def little(finished: dict[str, Experiment], tmp_path: Path) -> Experiment:
    return Experiment(shutil.copytree(finished["little"].folder, tmp_path / "little"))


def copy_of(first: Experiment, folder: Path) -> Experiment:
    """The same experiment on another machine: nothing is there but its files."""
    return write_experiment(folder, retrievers=RETRIEVERS)


def sealed(made: Experiment) -> set[tuple[str, str]]:
    """Kind and name of every finished stage that may travel."""
    found = (seal.parent for seal in made.workspace.glob("*/[!.]*/stage.json"))
    return {(folder.parent.name, folder.name) for folder in found if folder.parent.name != "latency"}


def transfer(command: str, capsys: Capture, shared: Shared, workspace: Path, code: int = 0) -> dict[str, Any]:
    done = ragtrial(capsys, "cache", command, shared.url, str(workspace), "--json")
    assert done.code == code, done.err
    return dict(done.json)


push, pull = partial(transfer, "push"), partial(transfer, "pull")


def test_other_machines_make_nothing_again(first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture) -> None:
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


def test_what_is_there_is_not_sent_again(first: Experiment, shared: Shared, tmp_path: Path, capsys: Capture) -> None:
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
    assert {path for path in whole.items() if "/rows/" not in path[0]} <= set(shared.files.items())
    workspace = tmp_path / "second"
    pull(capsys, shared, workspace)
    for kind, name in first.stages():
        if kind != "latency":
            check_bytes(workspace / kind / name)
    (vectors,) = (first.workspace / "vectors").glob("*.sqlite")
    with VectorCache(vectors) as own, VectorCache(workspace / "vectors" / vectors.name) as fetched:
        keys = own.keys()
        np.testing.assert_array_equal(fetched.read(keys), own.read(keys))


@pytest.mark.parametrize("what", ["flipped", "cut"])
def test_a_damaged_stage_is_refused_by_name_and_sent_again_once_it_is_gone(
    what: str, little: Experiment, shared: Shared, tmp_path: Path, capsys: Capture
) -> None:
    push(capsys, shared, little.workspace)
    whole = shared.files
    path = max((path for path in whole if "/stages/" in path), key=lambda path: len(whole[path]))
    content = whole[path]
    flipped = bytes([*content[:-1], content[-1] ^ 1])
    shared.change(path, flipped if what == "flipped" else content[:-1])
    workspace = tmp_path / "second"
    found = pull(capsys, shared, workspace, code=3)
    assert found["damaged"]
    assert all(path.rpartition("/")[2] in one["why"] for one in found["damaged"])
    for kind, name in ((entry.parent.name, entry.name) for entry in workspace.glob("*/[0-9a-f]*") if entry.is_dir()):
        check_bytes(workspace / kind / name)
    if what == "flipped":  # a push sees what is cut by itself
        shared.change(path, None)
    push(capsys, shared, little.workspace)
    assert shared.files == whole
    assert pull(capsys, shared, workspace)["damaged"] == []


@quickly
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


def fill(folder: Path) -> None:
    (folder / "x.bin").write_bytes(b"x" * 9_999)


@pytest.mark.parametrize("after", [1, 8, 40])
def test_a_killed_pull_is_ended_by_the_next(first: Experiment, tmp_path: Path, capsys: Capture, after: int) -> None:
    """The kill comes when so many stages have arrived; no half stage counts, and a run makes nothing again."""
    for number in range(50):
        Workspace(first.workspace).stage("filler", f"{number:032x}", "a filler", fill)
    shared = Shared(str(tmp_path / "shared"))
    push(capsys, shared, first.workspace)
    second = copy_of(first, tmp_path / "second")
    with commands_of(tmp_path / "logs") as start:
        pulling = start(tmp_path, "cache", "pull", shared.url, str(second.workspace), "-q")
        pulling.wait_until(lambda: len(list(second.workspace.glob("*/[!.]*/stage.json"))) >= after)
        pulling.process.kill()
        pulling.process.wait()
    arrived = sealed(second)
    assert len(arrived) < len(sealed(first)), "the pull had ended before the kill"
    for kind, name in arrived:
        check_bytes(second.workspace / kind / name)
    pull(capsys, shared, second.workspace)
    assert sealed(second) == sealed(first)
    report = run_experiment(second.config())
    assert second.embedded() == []
    assert hits_of(report, "dense") == hits_of(run_experiment(first.config()), "dense")
    checked = ragtrial(capsys, "cache", "verify", str(second.workspace), "--json").json
    assert checked["damaged"] == []
    assert list(second.workspace.rglob(".partial-*")) == []


def test_an_empty_url_has_nothing_and_passwords_are_in_no_message(tmp_path: Path, capsys: Capture) -> None:
    nothing = ragtrial(capsys, "cache", "pull", f"memory://{uuid.uuid4().hex}", str(tmp_path / "workspace"))
    assert nothing.out.startswith("0 entries fetched, 0 B; 0 there already")
    assert "warning: there is nothing at memory://" in nothing.err
    (tmp_path / "file").write_text("no folder")
    made = ragtrial(capsys, "cache", "pull", str(tmp_path / "file"), str(tmp_path / "workspace"))
    assert (made.code, made.err) == (2, f"error: {tmp_path}/file is a file; name a folder.\n")
    with socket.socket() as closed:  # bound, and not listening: whoever connects is refused
        closed.bind(("127.0.0.1", 0))
        url = f"ftp://me:pass@word@127.0.0.1:{closed.getsockname()[1]}/x"
        away = ragtrial(capsys, "cache", "pull", url, str(tmp_path / "workspace"))
    assert away.code == 3
    assert away.err.startswith("error: cannot reach ftp://me:***@127.0.0.1:")
    strange = ragtrial(capsys, "cache", "pull", "foo://me:pass@word@host/x", str(tmp_path / "workspace"))
    assert (strange.code, strange.err) == (2, "error: foo://me:***@host/x cannot be used: Protocol not known: foo\n")


def test_a_bucket_that_there_is_not_is_not_made(
    little: Experiment, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    s3.reach(monkeypatch)
    done = ragtrial(capsys, "cache", "push", "s3://taem/ragtrial", str(little.workspace))
    assert done.code == 3
    assert re.match(r"error: cannot write \S+ to s3://taem/ragtrial: The specified bucket does not exist", done.err)
    assert not s3.asked("PUT /taem/? ")


@pytest.mark.parametrize("why", ["refused", "away", "in the url"])
def test_the_keys_of_a_bucket_are_in_no_message(
    why: str, little: Experiment, s3: S3, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    s3.reach(monkeypatch)
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    if why == "refused":
        with s3.refusing():
            done = ragtrial(capsys, "cache", "push", url, str(little.workspace))
    elif why == "away":
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        with socket.socket() as closed:  # bound, and not listening: whoever connects is refused
            closed.bind(("127.0.0.1", 0))
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
            fsspec.filesystem("s3").clear_instance_cache()
            done = ragtrial(capsys, "cache", "push", url, str(little.workspace))
            fsspec.filesystem("s3").clear_instance_cache()
    else:
        done = ragtrial(capsys, "cache", "push", f"s3://me:s3cr3t@{BUCKET}/x", str(little.workspace))
        url = f"s3://me:***@{BUCKET}/x"
    assert done.code == 3
    assert done.err.startswith(f"error: cannot list {url}: ")
    assert "s3cr3t" not in done.err


def test_two_pulls_at_once_fetch_the_same_rows_undamaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtrial.cache.sharing._PACK_BYTES", 2_000)
    monkeypatch.setattr("ragtrial.cache.sharing._ROWS_AT_ONCE", 150)
    source, target, url = Workspace(tmp_path / "source"), Workspace(tmp_path / "target"), str(tmp_path / "shared")
    path, count = source.root / "vectors" / "numbers.sqlite", 400
    keys, vectors = text_keys(map(str, range(count))), np.arange(count * 4, dtype=np.float32).reshape(count, 4)
    with VectorCache(path, "numbers") as cache:
        cache.write(keys, vectors)
    SharedCache(url).push(Upkeep(source.root).entries())
    assert len([name for name in SharedCache(url).listed() if name.endswith(".rows")]) == 3

    def fetch(_: int) -> Transfer:
        remote = SharedCache(url)
        return remote.pull(target, remote.listed())

    with ThreadPoolExecutor(2) as threads:
        transfers = list(threads.map(fetch, range(2)))
    assert [transfer.damaged for transfer in transfers] == [[], []]
    with VectorCache(target.root / "vectors" / "numbers.sqlite") as fetched:
        np.testing.assert_array_equal(fetched.read(keys), vectors)


def test_answers_that_are_not_there_are_added(tmp_path: Path) -> None:
    url, name = str(tmp_path / "shared"), "0" * 32
    for folder, keys in (("source", "ab"), ("target", "bc")):
        for key in keys:
            path = Workspace(tmp_path / folder).root / "answers" / f"{name}.jsonl"
            path.parent.mkdir(exist_ok=True)
            append_row(path, {"key": key, "reply": {"text": key}})
    for _ in range(2):
        SharedCache(url).push(Upkeep(tmp_path / "source").entries())
        SharedCache(url).pull(Workspace(tmp_path / "target"), SharedCache(url).listed())
        assert [row["key"] for row in read_rows(path)] == ["b", "c", "a"]


def test_vectors_of_another_dimension_are_not_fetched(tmp_path: Path) -> None:
    """As of an endpoint that has another model on the other machine."""
    url = str(tmp_path / "shared")
    for name, first, dimension in (("source", 0, 4), ("target", 100, 3)):
        root = Workspace(tmp_path / name).root
        with VectorCache(root / "vectors" / "numbers.sqlite", "numbers") as cache:
            cache.keep_probe("0", np.ones(dimension, np.float32))
            cache.write(text_keys(map(str, range(first, first + 20))), np.ones((20, dimension), np.float32))
    SharedCache(url).push(Upkeep(tmp_path / "source").entries())
    remote = SharedCache(url)
    found = remote.pull(Workspace(tmp_path / "target"), remote.listed())
    assert found.moved == []
    ((_, why),) = found.damaged
    assert why.startswith("its vectors have 4 dimensions and those here 3: they are of another model")
    with VectorCache(tmp_path / "target" / "vectors" / "numbers.sqlite") as cache:
        assert cache.missing(text_keys(map(str, range(20)))).all()
