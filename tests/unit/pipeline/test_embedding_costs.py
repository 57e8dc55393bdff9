"""What embedding took is measured when it is done, and stays with the vectors: a setting has the sum of its texts."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from expectations import present
from experiments import Experiment, write_experiment
from ragtrial.cache.sharing import SharedCache
from ragtrial.cache.upkeep import Upkeep
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.cache.workspace import Workspace
from ragtrial.components.batching import Meter
from ragtrial.errors import RunError
from ragtrial.experiment import run_experiment

SHORT = "A new page of six words."


def seconds_of(experiment: Experiment, *overrides: str) -> float:
    costs = run_experiment(experiment.config(*overrides)).settings[0].costs
    return present(present(costs).embedding_seconds)


def cache_of(experiment: Experiment) -> Path:
    (path,) = (experiment.workspace / "vectors").glob("*.sqlite")
    return path


def forget(experiment: Experiment) -> None:
    """Remove the finished embeddings; their vectors stay."""
    shutil.rmtree(experiment.workspace / "embeddings")


def through_a_shared_cache(experiment: Experiment) -> None:
    shared = SharedCache((experiment.folder / "shared").as_uri())
    shared.push(Upkeep(experiment.workspace).entries())
    shutil.rmtree(experiment.workspace)
    shared.pull(Workspace(experiment.workspace), shared.listed())
    shutil.rmtree(experiment.workspace / "embeddings", ignore_errors=True)


SAME: dict[str, tuple[Callable[[Experiment], object], tuple[str, ...]]] = {
    "nothing": (lambda _: None, ()),
    "embeddings that are put together again": (forget, ()),
    "another store": (lambda _: None, ("store.kind=chroma",)),
    "vectors that are cut": (lambda _: None, ("embedder.dimensions=2",)),
    "another retriever of the same chunks": (lambda _: None, ("retrievers.dense.top_k=1",)),
    "another size of batches": (forget, ("embedder.batch_size=1",)),
    "a cache that was pulled": (through_a_shared_cache, ()),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, float]:
    experiment = write_experiment(tmp_path_factory.mktemp("costs") / "first")
    return experiment, seconds_of(experiment)


@pytest.mark.parametrize(("change", "overrides"), SAME.values(), ids=SAME)
def test_what_embeds_nothing_anew_changes_no_cost(
    finished: tuple[Experiment, float],
    tmp_path: Path,
    change: Callable[[Experiment], object],
    overrides: tuple[str, ...],
) -> None:
    experiment = Experiment(shutil.copytree(finished[0].folder, tmp_path / "copy"))
    embedded = len(experiment.embedded())
    change(experiment)
    assert seconds_of(experiment, *overrides) == pytest.approx(finished[1], rel=1e-9)
    assert len(experiment.embedded()) == embedded


def test_a_new_document_adds_its_cost_and_takes_it_away(finished: tuple[Experiment, float], tmp_path: Path) -> None:
    experiment, before = Experiment(shutil.copytree(finished[0].folder, tmp_path / "copy")), finished[1]
    page = experiment.folder / "documents" / "new.txt"
    page.write_text(SHORT)
    after = seconds_of(experiment)
    (text,) = [text for text in experiment.embedded() if SHORT in text]
    with VectorCache(cache_of(experiment)) as cache:
        own = float(cache.costs(text_keys([text]))[0, 0])
    assert own > 0
    assert after == pytest.approx(before + own, rel=1e-9)
    page.unlink()
    assert seconds_of(experiment) == pytest.approx(before, rel=1e-9)


def test_what_was_embedded_before_a_failure_counts_after_it(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path / "first")
    experiment.trouble("raise", 4)
    with pytest.raises(RunError):
        run_experiment(experiment.config())
    with VectorCache(cache_of(experiment)) as cache:
        before = cache.costs(cache.keys())[:, 0]
    assert len(before) > 0
    assert (before > 0).all()
    experiment.no_trouble()
    assert seconds_of(experiment) > before.sum()


def test_a_batch_is_shared_out_by_length_and_no_time_is_counted_twice() -> None:
    billed = iter([10, 16, 16])
    meter = Meter(lambda: next(billed))
    first, second = meter.shares(np.array([99, 199])), meter.shares(np.array([0]))
    assert first[:, 1].tolist() == [2.0, 4.0]
    assert first[1, 0] == pytest.approx(2 * first[0, 0])
    assert second[0, 1] == 0.0
