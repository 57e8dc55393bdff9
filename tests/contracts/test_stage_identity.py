"""A stage is verified as what it is: swapped, foreign and merged ones of every kind are seen, named and built again."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import SecretStr

from custom_search import SEARCH
from experiments import DOCUMENTS, Experiment, write_experiment
from ragtrial.cache.arrays import read_arrays, write_arrays
from ragtrial.cache.seals import SEAL, read_seal, seal
from ragtrial.cache.upkeep import Upkeep
from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.engines import COLLECTIONS, STORES
from ragtrial.errors import RagtrialError
from ragtrial.experiment import run_experiment
from ragtrial.options import Options
from ragtrial.report.model import Report

Array = npt.NDArray[Any]
SECTIONS = {
    "embedder": {"kind": "custom", "function": "other:embed", "batch_size": 4},
    "chunker": {"kind": "recursive", "size": 150, "overlap": 0, "unit": "characters"},
}
FEW = {"store": {"kind": "exact"}, "top_k": 4, "kind": "dense"}
RETRIEVERS: dict[str, Any] = {
    "a": {"kind": "dense", "top_k": 4},
    "b": {"kind": "dense", "top_k": 4, "chunker": SECTIONS["chunker"]},
    "d": {**FEW, "embedder": {"kind": "custom", "function": "embedding:embed", "batch_size": 4, "dimensions": 12}},
    "e": {**FEW, "embedder": {**SECTIONS["embedder"], "dimensions": 12}},
    "f": {**FEW, "context": {"headings": True}},
    "g": {**FEW, "context": {"headings": True}, "chunker": SECTIONS["chunker"]},
    "words": {"kind": "bm25", "top_k": 4},
    "more": {"kind": "bm25", "top_k": 4, "chunker": SECTIONS["chunker"]},
    "own": {"kind": "custom", "function": "searching:search", "top_k": 4},
    "mine": {"kind": "custom", "function": "finding:search", "top_k": 4},
}
BOOKKEEPING = {"uses", "locks"}
KINDS = [
    "answers", "bm25", "chunks", "embeddings", "indexes", "lengths", "rankings", "shares", "contexts",
    "terms", "truncated", "use", "vectors",
]  # fmt: skip
"""The kinds that this experiment has several of; `documents` has one, and is tried by what is foreign."""


def made_in(folder: Path, names: Iterable[str] = RETRIEVERS, **documents: str) -> tuple[Experiment, Report]:
    """A finished experiment of the retrievers of these ``names``."""
    retrievers = {name: RETRIEVERS[name] for name in names}
    experiment = write_experiment(folder, {**DOCUMENTS, **documents}, store={"kind": "chroma"}, retrievers=retrievers)
    for name, text in {
        "other.py": (folder / "embedding.py").read_text().replace("% 32", "% 24").replace("* 32", "* 24"),
        "searching.py": SEARCH, "finding.py": SEARCH.replace("[:top_k]", "[: top_k - 1]"),
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    return experiment, run_experiment(experiment.config())


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Report]:
    return made_in(tmp_path_factory.mktemp("identity") / "own")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Report]:
    """One setting for each kind of stage that holds arrays."""
    return made_in(tmp_path_factory.mktemp("identity") / "arrays", ["d", "f", "words"])


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The same experiment over other documents."""
    more = {"soup/leek.md": "# Leek soup\nNothing but leeks and salt.", "a.txt": "Rye bread is baked at noon."}
    return made_in(tmp_path_factory.mktemp("identity") / "foreign", **more)[0]


def entries(experiment: Experiment, kind: str) -> list[Path]:
    paths = sorted((experiment.workspace / kind).glob("[!.]*"))
    return [path for path in paths if path.is_dir() or path.suffix in (".sqlite", ".jsonl")]


def numbers(report: Report) -> list[Any]:
    return [(one.name, one.scores, one.per_query.evaluations) for one in report.settings]


def test_every_kind_of_stage_is_tried(fresh: tuple[Experiment, Report]) -> None:
    kinds = {path.name for path in fresh[0].workspace.iterdir() if path.is_dir()} - BOOKKEEPING
    several = {kind for kind in kinds if len(entries(fresh[0], kind)) > 1}
    assert several == set(KINDS)
    assert kinds - several == {"documents"} & kinds


def swap(own: list[Path], _foreign: list[Path]) -> None:
    one, other = own[:2]
    beside = one.with_name("beside")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


def replace(own: list[Path], foreign: list[Path]) -> None:
    for path, other in zip(own, foreign, strict=False):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        (shutil.copytree if other.is_dir() else shutil.copy)(other, path)


def merge(own: list[Path], foreign: list[Path]) -> None:
    """The files, rows or lines of a foreign entry come into the own one, as when one folder is copied onto another."""
    for path, other in zip(own, foreign, strict=False):
        if path.is_dir():
            shutil.copytree(other, path, dirs_exist_ok=True)
        elif path.suffix == ".jsonl":
            path.write_bytes(other.read_bytes() + path.read_bytes())
        else:
            with closing(sqlite3.connect(path)) as database:
                database.execute("ATTACH ? AS other", (str(other),))
                database.execute("INSERT OR REPLACE INTO vectors SELECT * FROM other.vectors")
                database.commit()


@pytest.mark.parametrize("kind", ["documents", *KINDS])
@pytest.mark.parametrize("change", [swap, replace, merge])
def test_a_stage_that_belongs_elsewhere_is_named_and_changes_no_number(
    fresh: tuple[Experiment, Report],
    foreign: Experiment,
    tmp_path: Path,
    kind: str,
    change: Callable[[list[Path], list[Path]], None],
) -> None:
    experiment = Experiment(shutil.copytree(fresh[0].folder, tmp_path / "copy"))
    others = [*entries(foreign, kind)[::-1], *entries(fresh[0], kind)[::-1]]
    own = entries(experiment, kind)
    if change is swap and len(own) < 2:
        pytest.skip("there is only one stage of this kind: nothing to swap")
    change(own, [path for path in others if path.name not in {one.name for one in own[:1]}])
    if kind != "rankings":  # else nothing would be read again
        shutil.rmtree(experiment.workspace / "rankings")
    report = run_experiment(experiment.config())
    said = [one.message for one in report.warnings if one.code == "repaired"]
    said += [f"{entry.path}: {why}" for entry, why in Upkeep(experiment.workspace).verify().removed]
    assert numbers(report) == numbers(fresh[1])
    assert any(f"/{kind}/" in message for message in said), json.dumps(said)
    if change is merge:
        again = run_experiment(experiment.config())
        assert numbers(again) == numbers(fresh[1])
        assert [one for one in again.warnings if one.code == "repaired"] == []


def shorter(array: Array) -> Array:
    return array[: len(array) // 2]


def narrower(array: Array) -> Array:
    return array[:, :-1] if array.ndim == 2 else array


def beyond(array: Array) -> Array:
    return np.full_like(array, 30_000) if array.dtype.kind in "iu" and array.dtype.itemsize > 1 else array


def below(array: Array) -> Array:
    return np.full_like(array, -7) if array.dtype.kind == "i" else array


ARRAY_KINDS = ["bm25", "chunks", "documents", "embeddings", "lengths", "rankings", "shares", "terms", "truncated"]
"""The kinds of stages that hold arrays."""


def changed_arrays(folder: Path, change: Callable[[Array], Array], scratch: Path) -> Iterator[tuple[Path, bytes]]:
    """Each file of arrays in ``folder``, and its bytes with one array changed."""
    for path in sorted(folder.rglob("*.np*")):
        arrays = list(read_arrays(path))
        for place, array in enumerate(arrays):
            changed = change(array) if array.ndim and array.size else array
            if changed.shape == array.shape and np.array_equal(changed, array):
                continue
            write_arrays(scratch, [*arrays[:place], changed, *arrays[place + 1 :]])
            yield path, scratch.read_bytes()


@pytest.mark.parametrize("kind", ARRAY_KINDS)
@pytest.mark.parametrize("change", [shorter, narrower, beyond, below])
def test_a_sealed_stage_whose_arrays_do_not_fit_one_another_is_an_error_or_built_again(
    arrays: tuple[Experiment, Report], tmp_path: Path, kind: str, change: Callable[[Array], Array]
) -> None:
    """Whoever has written it has sealed it rightly: no number is another one, and nothing crashes."""
    experiment = Experiment(shutil.copytree(arrays[0].folder, tmp_path / "copy"))
    if kind != "rankings":  # else nothing would be read again
        shutil.rmtree(experiment.workspace / "rankings")
    workspace = shutil.copytree(experiment.workspace, tmp_path / "workspace")
    problems = []
    for entry in entries(experiment, kind)[:1]:
        for path, content in list(changed_arrays(entry, change, tmp_path / "scratch")):
            shutil.rmtree(experiment.workspace)
            shutil.copytree(workspace, experiment.workspace)
            what = read_seal(entry).what
            path.write_bytes(content)
            (entry / SEAL).unlink()
            seal(entry, what)
            try:
                report = run_experiment(experiment.config())
            except RagtrialError:
                continue
            except Exception as error:  # noqa: BLE001 - all of them are reported together
                problems.append(f"{path.name}: {type(error).__name__} {error}")
                continue
            wrong = [part[0] for part in numbers(report) if part not in numbers(arrays[1])]
            crashed = [failure.error for failure in report.failures if failure.details]
            if wrong or crashed or len(report.settings) + len(report.failures) != len(arrays[1].settings):
                problems.append(f"{path.name}: {wrong} {crashed}")
    assert problems == []


OPTIONS = {
    f"{family.noun} {name}": kind for family in (STORES, COLLECTIONS, EMBEDDERS) for name, kind in family.members()
}


@pytest.mark.parametrize("kind", OPTIONS.values(), ids=OPTIONS)
def test_options_that_change_no_result_are_secrets_limits_or_not_shown(kind: type[Options]) -> None:
    left_out = (kind.unhashed & set(kind.model_fields)) - {"kind", *kind.named_by}
    given = dict.fromkeys(kind.named_by, "shown") | dict.fromkeys(left_out, "hidden")
    summary = kind.model_construct(set(given), **given).summary()
    assert "hidden" not in summary
    assert not [name for name in left_out if f"{name}=" in summary]
    assert not kind.named_by or "shown" in summary
    wanted = {name for name, field in kind.model_fields.items() if SecretStr.__name__ in repr(field.annotation)}
    wanted |= {"timeout", "settle_within", "batch_size", "concurrency", "retries"} & set(kind.model_fields)
    assert wanted <= kind.unhashed


def test_the_summary_of_a_store_on_a_server_says_where_it_is_and_how_it_is_built() -> None:
    store = STORES["qdrant"].model_validate({"url": "http://127.0.0.1:6333", "timeout": 5, "space": "ip"})
    assert store.summary() == "qdrant space=ip url=http://127.0.0.1:6333"
    embedder = EMBEDDERS["openai"].model_validate({"model": "m", "timeout": 5, "retries": 1, "batch_size": 3})
    assert embedder.summary() == "openai model=m"
