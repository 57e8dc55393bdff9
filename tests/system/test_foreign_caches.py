"""A cache that was pulled or restored names servers, and no command connects to one for that."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments import Experiment, write_experiment
from local_servers import Handler, serving
from ragtrial.cache.bookkeeping import Usage
from ragtrial.cache.remote import REMOTE
from ragtrial.cache.seals import seal
from ragtrial.cache.workspace import Workspace
from ragtrial.pipeline.resources import user_of
from small_experiment import Capture, ragtrial

KEY = "5" * 32


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server that answers nothing useful, and every request that it got."""
    requests: list[str] = []

    class Refusing(Handler):
        def answer(self) -> None:
            requests.append(f"{self.command} {self.path} {dict(self.headers)}")
            self.send_error(500)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - as http.server names them

    with serving(Refusing) as address:
        yield address, requests


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path / "own", retrievers={"words": {"kind": "bm25", "top_k": 3}})


def plant(experiment: Experiment, url: str, collection: str, *, unfinished: bool = False) -> Path:
    """A stage of the cache that is no more than a collection on a server, as somebody else may have written it."""
    name = f".partial-{KEY}-left" if unfinished else KEY
    folder = Workspace(experiment.workspace).root / "indexes" / name
    folder.mkdir(parents=True)
    secret = {"secret": "${STOLEN}"}
    content = {
        "what": "index", "kind": "qdrant", "collection": collection, "count": 3, "place": {"url": url},
        "connection": {"url": url, "api_key": secret, "headers": {"X": secret}},
    }  # fmt: skip
    (folder / REMOTE).write_text(json.dumps(content))
    seal(folder, "an index")
    return folder


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_foreign_cache_makes_no_command_connect(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, *, unfinished: bool
) -> None:
    """Verify, prune, push, pull and run leave the server alone and list what they could not check."""
    monkeypatch.setenv("STOLEN", "a-secret")
    assert ragtrial(capsys, "run", experiment.file, "-q").code == 0
    with listening() as (url, requests):
        folder = plant(experiment, url, f"ragtrial_{KEY[:16]}_00000000", unfinished=unfinished)
        for where in (experiment.workspace, experiment.file):
            checked = ragtrial(capsys, "cache", "verify", where, "--json")
            assert checked.code == 4
            assert [Path(one["path"]) for one in checked.json["unchecked"]] == [folder]
            assert "no named config connects to" in checked.json["unchecked"][0]["why"]
            pruned = ragtrial(capsys, "cache", "prune", where, "--older-than", "0h", "--json")
            assert (pruned.code, [Path(one["path"]) for one in pruned.json["kept"]]) == (4, [folder])
        assert ragtrial(capsys, "cache", "prune", experiment.file, "--unused").code == 4
        assert ragtrial(capsys, "cache", "push", tmp_path / "shared", experiment.file).code == 0
        assert not list((tmp_path / "shared").rglob(f"*{KEY}*"))
        assert ragtrial(capsys, "cache", "pull", tmp_path / "shared", tmp_path / "other").code == 0
        assert ragtrial(capsys, "run", experiment.file, "-q").code == 0
        assert folder.exists()
    assert requests == []


def test_a_name_that_cannot_be_read_is_kept_with_the_reason(experiment: Experiment, capsys: Capture) -> None:
    (plant(experiment, "", "") / REMOTE).write_text("[]")
    pruned = ragtrial(capsys, "cache", "prune", experiment.workspace, "--older-than", "0h", "--json")
    assert f"{REMOTE} is not a JSON object" in pruned.json["kept"][0]["why"]


NOT_OURS = ["production", f"ragtrial_{'6' * 16}_00000000", f"ragtrial_{KEY[:16]}_", f"x_ragtrial_{KEY[:16]}_00000000"]


@pytest.mark.parametrize("collection", NOT_OURS)
def test_collections_of_other_names_are_not_touched(
    experiment: Experiment, tmp_path: Path, capsys: Capture, collection: str
) -> None:
    with listening() as (url, requests):
        config = served(experiment, url)
        folder = plant(experiment, url, collection)
        Usage(experiment.workspace / "uses").mark("indexes", KEY, user_of(config.config()))
        pruned = ragtrial(capsys, "cache", "prune", experiment.workspace, "--older-than", "0h", "--config", config.file)
        checked = ragtrial(capsys, "cache", "verify", experiment.workspace, "--config", config.file)
        assert (pruned.code, checked.code) == (4, 4)
        assert "was not built by this config" in pruned.err
        assert folder.exists()
    assert requests == []


def test_a_collection_is_removed_only_by_a_config_that_has_built_it(experiment: Experiment, capsys: Capture) -> None:
    with listening() as (url, requests):
        config = served(experiment, url)
        folder = plant(experiment, url, f"ragtrial_{KEY[:16]}_00000000")
        prune = ("cache", "prune", str(experiment.workspace), "--older-than", "0h", "--config", str(config.file))
        assert ragtrial(capsys, *prune).code == 4
        assert requests == []
        Usage(experiment.workspace / "uses").mark("indexes", KEY, user_of(config.config()))
        assert ragtrial(capsys, *prune).code == 4  # this server refuses
        assert folder.exists()
    assert any(request.startswith("DELETE ") and "api-key" not in request for request in requests)


def served(experiment: Experiment, url: str) -> Experiment:
    """The experiment with a Qdrant server at ``url``."""
    store = {"kind": "qdrant", "url": url, "timeout": 2}
    retrievers = {"served": {"kind": "dense", "top_k": 3, "store": store}}
    return write_experiment(experiment.folder, retrievers=retrievers)
