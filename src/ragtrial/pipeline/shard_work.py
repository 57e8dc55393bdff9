"""The texts of a config that one of many machines embeds; they share a folder and nothing else.

A text belongs to a shard by the hash of itself, so every machine knows its share, and a changed text moves no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from ragtrial.cache.sharing import SharedCache
from ragtrial.cache.vectors import Keys, VectorCache
from ragtrial.components.embedders import Embedder
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.refiners import Refiner
from ragtrial.components.text_batches import SomeTexts, TextList, TextSource, keys_among, longest_first
from ragtrial.config import ExperimentConfig
from ragtrial.config.load import check
from ragtrial.config.settings import Setting, settings_of
from ragtrial.dataset.datasets import load_dataset
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress, Silent, stage
from ragtrial.records import Question

_KIND = "vectors"


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` of ``count``. They are counted from 1 or from 0: shard 0 is shard ``count``."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard written like ``3/64``. Raises InputError."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if not found or not int(found[1]) <= int(found[2]) or not int(found[2]):
            raise InputError(
                f"--shard {text!r} is no shard; write its number and how many there are, like 3/64. Numbers go from "
                "1 to 64, or from 0 to 63."
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of ``keys`` are in it, shape (keys,). Each key is in exactly one of the shards."""
        found: npt.NDArray[np.bool_] = np.ascontiguousarray(keys).view("<u8")[:, 0] % self.count == (
            self.number % self.count
        )
        return found


@dataclass
class EmbedderWork:
    """What was done for one embedder.

    ``texts`` are the distinct ones in the shard; ``present`` of them were in the shared folder, ``kept`` in the
    workspace, and ``embedded`` are new. ``seconds`` is the time of the model, ``bytes`` the size of what was sent.
    """

    embedder: str
    cache: str
    texts: int = 0
    present: int = 0
    kept: int = 0
    embedded: int = 0
    seconds: float = 0.0
    bytes: int = 0
    error: str = ""


@dataclass
class ShardWork:
    """What was done for a shard.

    ``left`` names settings whose texts only a run can embed, and why; ``failed`` those that cannot be cut, and why.
    """

    workspace: str
    embedders: list[EmbedderWork] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def errors(self) -> list[str]:
        """All that failed."""
        names = [f"setting {name!r}: {why}" for name, why in self.failed.items()]
        return names + [f"{one.embedder}: {one.error}" for one in self.embedders if one.error]


def embed_shard(
    config: ExperimentConfig,
    shard: Shard,
    shared: SharedCache,
    *,
    texts_per_pack: int,
    progress: Progress | None = None,
) -> ShardWork:
    """Embed what ``shared`` lacks of the texts of ``shard``: chunks and queries of all settings of ``config``.

    Vectors are sent after every ``texts_per_pack`` texts, so that a kill costs little; those that the workspace has are
    sent, too. What fails for one embedder is noted, and the others go on. Raises InputError before anything is done,
    RunError if all fail.
    """
    check(config)
    dataset = load_dataset(config.dataset)
    corpus = Corpus(config, progress or Silent(), dataset.corpus)
    settings = list({one.ranking_key: one for setting in settings_of(config)[0] for one in setting.tree()}.values())
    _check(corpus, settings)
    made = ShardWork(str(corpus.resources.workspace.root))
    work = _Work(corpus, made)
    for setting in settings:
        work.add_chunks(setting)
    for setting in settings_of(config)[0]:
        work.add_queries(setting, [query.question for query in dataset.labels.queries])
    for embedder, sources in work.sources.items():
        cached = corpus.resources.embedder(embedder)
        one = EmbedderWork(embedder.summary(), cached.fingerprint)
        made.embedders.append(one)
        try:
            _embed(cached, sources, shard, shared, texts_per_pack, corpus.resources.progress, one)
        except RunError as error:
            one.error = str(error)
        corpus.resources.mark_vectors(embedder)
        corpus.resources.release(embedder)
    corpus.resources.workspace.finish(complete=False)
    if made.errors and all(one.error for one in made.embedders):
        raise RunError(*made.errors)
    return made


class _Work:
    """The texts of each embedder, with the prefix that is put before them; what cannot be had is noted in ``made``."""

    def __init__(self, corpus: Corpus, made: ShardWork) -> None:
        self._corpus, self._made = corpus, made
        self.sources: dict[Embedder, dict[tuple[object, str], TextSource]] = {}

    def add_chunks(self, setting: Setting) -> None:
        """What is indexed for the chunks of ``setting``, if it searches their vectors."""
        corpus, embedder = self._corpus, setting.embedder.whole
        if not setting.has_index:
            return
        if embedder.reads_documents:
            self._made.left[setting.name] = f"{embedder.kind} embeds whole documents"
            return
        try:
            if corpus.chunks(setting, loads_models=False) is None:
                self._made.left[setting.name] = f"its chunker ({setting.chunker.kind}) embeds while it cuts"
                return
            texts = corpus.text_stage(setting)
            self._add(
                embedder, texts, corpus.resources.embedder(embedder).document_prefix, corpus.runner.artefact(texts)
            )
        except RunError as error:
            self._made.failed[setting.name] = str(error)

    def add_queries(self, setting: Setting, questions: Sequence[Question]) -> None:
        """What ``setting`` and its parts are asked, where they embed it."""
        if "embedder" in setting.retriever.reached_by:
            embedder, texts = setting.embedder.whole, tuple(question.text for question in questions)
            self._add(embedder, texts, self._corpus.resources.embedder(embedder).query_prefix, TextList(texts))
        if isinstance(setting.retriever, Refiner) and setting.retriever.writer is not None:
            return  # a model words what the parts are asked
        for part in setting.parts:
            self.add_queries(part, setting.wordings(questions))

    def _add(self, embedder: Embedder, name: object, prefix: str, source: TextSource) -> None:
        self.sources.setdefault(embedder, {})[name, prefix] = source


def _check(corpus: Corpus, settings: Sequence[Setting]) -> None:
    """Raise InputError, with all faults, for a chunker or an embedder that cannot work. No store is needed here."""
    faults: list[Fault] = []
    for setting in settings:
        try:
            if "chunker" in setting.reached_by:
                setting.chunker.check()
                corpus.resources.unit_tokenizer(setting)
            if "embedder" in setting.reached_by:
                corpus.resources.embedder(setting.embedder).check()
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(*dict.fromkeys(faults))


def _embed(
    cached: CachedEmbedder,
    sources: dict[tuple[object, str], TextSource],
    shard: Shard,
    shared: SharedCache,
    texts_per_pack: int,
    progress: Progress,
    made: EmbedderWork,
) -> None:
    """Embed and send what is missing of the ``sources``, and count it in ``made``."""
    sent = {key.tobytes() for keys in shared.keys(_KIND, cached.fingerprint) for key in keys[shard.has(keys)]}
    seen = set[bytes]()
    for (_, prefix), source in sources.items():
        positions, keys = keys_among(source, prefix, shard.has)
        names = [key.tobytes() for key in keys]
        is_new = np.array([name not in seen for name in names], dtype=np.bool_)
        is_sent = np.array([name in sent for name in names], dtype=np.bool_)
        seen.update(names)
        made.texts += int(is_new.sum())
        made.present += int((is_new & is_sent).sum())
        todo = SomeTexts(source, positions[is_new & ~is_sent])
        if not len(todo):
            continue
        with stage(progress, "embeddings", len(todo), "texts") as counted:
            for pack in _packs(cached, todo, prefix, texts_per_pack):
                _send(cached, pack, prefix, shared, counted.advance, made)


def _packs(cached: CachedEmbedder, texts: SomeTexts, prefix: str, size: int) -> Iterator[SomeTexts]:
    """``texts`` in packs of about equally long ones, the longest first; in a pack those of a document are together."""
    order = longest_first(np.arange(len(texts)), cached.lengths(texts, prefix))
    for start in range(0, len(order), size):
        yield SomeTexts(texts.source, texts.positions[np.sort(order[start : start + size])])


def _send(
    cached: CachedEmbedder,
    pack: SomeTexts,
    prefix: str,
    shared: SharedCache,
    advance: Callable[[int], None],
    made: EmbedderWork,
) -> None:
    absent = len(cached.absent(pack, prefix)[0])
    embedded = cached.embed(pack, prefix, cached.lengths(pack, prefix), advance)
    made.embedded += absent
    made.kept += len(pack) - absent
    made.seconds += embedded.seconds
    with VectorCache(cached.path) as cache:
        made.bytes += shared.send_rows(_KIND, cache, embedded.keys)
