"""The shared resources of a run: workspace, models and tokenizers, each loaded once, and progress."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ragtrial.cache.bookkeeping import Usage, user
from ragtrial.cache.workspace import Workspace, default_workspace
from ragtrial.components.embedders.base import Embedder
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.model_files import may_fetch
from ragtrial.components.tokenizers import CHARACTERS_PER_TOKEN, Tokenizer, UnitCounter, Words
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting, settings_of
from ragtrial.engines import Store
from ragtrial.engines.servers import StoreServers
from ragtrial.errors import ModelNotFoundError
from ragtrial.evaluation.context_sizes import TokenCounts
from ragtrial.options import expand_user
from ragtrial.progress import Progress, stage


class Resources:
    """The workspace of a run, its embedders, tokenizers and progress. Loads no model by itself."""

    def __init__(self, config: ExperimentConfig, progress: Progress) -> None:
        root = workspace_folder(config)
        self.workspace = Workspace(root, user_of(config), [servers_of(config, root)])
        self.progress = progress
        self.digest = self.workspace.digests.digest
        self._executor = config.executor
        self.rates = self.workspace.rates
        self.counted: dict[tuple[str, str], TokenCounts] = {}
        """The counted tokens of hits, by the names of the chunks and of the tokenizer."""
        self._lock = Lock()
        self._embedders: dict[Embedder, CachedEmbedder] = {}
        self._tokenizers: dict[Path, Tokenizer] = {}
        self._missing: dict[Embedder, ModelNotFoundError] = {}

    def embedder(self, embedder: Embedder) -> CachedEmbedder:
        """The shared embedder of all settings with this embedder. Raises ModelNotFoundError."""
        with self._lock:
            whole = embedder.untruncated
            if whole in self._missing:
                raise self._missing[whole]  # a model is looked for once in a run
            if whole not in self._embedders:
                folder = self.workspace.root / "vectors"
                try:
                    self._embedders[whole] = CachedEmbedder(whole, folder, self.digest, self._executor.start)
                except ModelNotFoundError as error:
                    if may_fetch():
                        self._missing[whole] = error
                    raise
            if embedder not in self._embedders:
                self._embedders[embedder] = self._embedders[whole].cut(embedder)
            return self._embedders[embedder]

    def release(self, embedder: Embedder) -> None:
        """Release the model of ``embedder``: no later setting needs it, with any dimensions."""
        if embedder in self._embedders:
            self._embedders[embedder].release()

    def note_tokens(self, embedder: Embedder, length: float, tokens: int | None) -> None:
        """Note the billed ``tokens`` of texts of a total ``length`` (see ``CachedEmbedder.lengths``)."""
        if tokens is not None:
            self.rates.note(self._billed(embedder), length, tokens)

    def embedding_cost(self, embedder: Embedder, length: float, tokens: float | None = None) -> float | None:
        """The price of embedding texts of a total ``length``, for which ``tokens`` were billed; None if nothing is
        paid.

        Without ``tokens``, estimated from earlier bills.
        """
        if not embedder.is_paid:
            return None
        if tokens is None:
            tokens = self.rates.seconds(self._billed(embedder), length)
        if tokens is None:
            tokens = length if self.embedder(embedder).tokenizer else length / CHARACTERS_PER_TOKEN
        return embedder.cost(tokens)

    def _billed(self, embedder: Embedder) -> str:
        return f"billed tokens {self.embedder(embedder).fingerprint}"

    def mark_vectors(self, embedder: Embedder) -> None:
        """Note that the cached vectors of ``embedder`` are used."""
        self.workspace.mark("vectors", self.embedder(embedder).path.stem)

    def unit_tokenizer(self, setting: Setting) -> UnitCounter | None:
        """The counter of the sizes of the setting's chunks; None for characters. Raises ModelNotFoundError."""
        counted_by = setting.chunker.counted_by
        if counted_by == "characters":
            return None
        if counted_by == "words":
            return Words()
        if counted_by != "embedder":
            path = Path(counted_by)
            if path not in self._tokenizers:
                own_tokenizer = Tokenizer(path)
                own_tokenizer.check()
                self._tokenizers[path] = own_tokenizer
            return self._tokenizers[path]
        try:
            tokenizer = self.embedder(setting.embedder).tokenizer
        except ModelNotFoundError as error:
            message = f"{error} The sizes of the chunks are counted in its tokens; for retrievers without a model, set"
            words = "chunker.tokenizer: words, or chunker.unit: characters with larger sizes."
            raise ModelNotFoundError(f"{message} {words}", may_be_fetched=error.may_be_fetched) from None
        if tokenizer is None:
            raise ModelNotFoundError(
                "its embedder has no tokenizer.json, so tokens cannot be counted; "
                "set chunker.unit: characters or chunker.tokenizer: words."
            )
        return tokenizer

    @contextmanager
    def working(self, name: str, total: int, unit: str, rate: str, amount: float | None = None) -> Iterator[Progress]:
        """Announce a stage, and note the seconds for ``amount`` units (by default ``total``) of the work ``rate``."""
        start = time.perf_counter()
        with stage(self.progress, name, total, unit) as progress:
            yield progress
        self.rates.note(rate, total if amount is None else amount, time.perf_counter() - start)


def workspace_folder(config: ExperimentConfig) -> Path:
    """The folder of finished stages: named by the config, else the default one of the config's folder."""
    if config.workspace:
        return expand_user(config.workspace).absolute()
    return default_workspace(Path(config.file).absolute().parent if config.file else Path.cwd())


def user_of(config: ExperimentConfig) -> str:
    """The id of the experiment of ``config`` among the users of its workspace."""
    return user(config.experiment, config.file or str(Path.cwd()))


def servers_of(config: ExperimentConfig, workspace: Path) -> StoreServers:
    """The servers on which ``config`` builds indexes; ``workspace`` knows which it has built."""

    def stores() -> Iterator[Store]:
        return (part.store for setting in settings_of(config)[0] for part in setting.tree())

    usage = Usage(workspace / "uses")
    return StoreServers(stores, lambda key: usage.is_marked("indexes", key, user_of(config)))
