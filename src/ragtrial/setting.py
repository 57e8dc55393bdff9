"""Settings: one retriever with everything that reaches it, which is what an experiment compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragtrial.chunkers import Chunker
from ragtrial.config import ExperimentConfig
from ragtrial.context import ContextOptions
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.uncovered import uncovered
from ragtrial.embedders import Embedder
from ragtrial.records import Caution
from ragtrial.retrievers import Retriever
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.stores import Store


@dataclass(frozen=True)
class Setting:
    """One retriever with everything that reaches it."""

    name: str
    retriever: Retriever
    chunker: Chunker
    context: ContextOptions
    embedder: Embedder
    store: Store


def settings_of(config: ExperimentConfig) -> tuple[list[Setting], list[Caution]]:
    """The settings of a config, in its order; of equal ones the first stands for all, and that is said."""
    settings: list[Setting] = []
    cautions: list[Caution] = []
    seen: dict[tuple[object, ...], str] = {}
    for name, retriever in config.retrievers.items():
        setting = Setting(
            name,
            retriever,
            retriever.chunker or config.chunker,
            retriever.context or config.context,
            retriever.embedder or config.embedder,
            retriever.store or config.store,
        )
        reach = (setting.chunker, setting.context, setting.embedder, setting.store)
        key = (fingerprint(retriever.identity()), *reach)
        if key in seen:
            message = f"setting {name!r} is the same as {seen[key]!r}; it is run and shown once, as {seen[key]!r}."
            cautions.append(Caution("equal-settings", message))
        else:
            seen[key] = name
            settings.append(setting)
    return settings, cautions


def too_long_cautions(setting: Setting, too_long: Mapping[str, int | None]) -> Iterator[Caution]:
    """A warning for each kind of text that the model of ``setting`` does not read to the end."""
    limit = setting.embedder.max_tokens()
    for what, count in too_long.items():
        if count:
            yield Caution(
                "too-long",
                f"{setting.name}: {count:,} {what} are longer than the {limit} tokens that the model reads; the "
                "rest of each is ignored. Use smaller chunks, or a model that reads more.",
            )


def uncovered_cautions(setting: Setting, chunks: Chunks) -> Iterator[Caution]:
    """A warning if ``chunks``, those of ``setting``, leave text out, as only some chunkers may."""
    found = uncovered(chunks) if setting.chunker.may_leave_out else None
    if found and found.uncovered:
        documents = f"{len(found.documents):,} document{'s' if len(found.documents) > 1 else ''}"
        yield Caution(
            "uncovered-text",
            f"{setting.name}: {found.uncovered:,} of {found.characters:,} characters ({found.share:.1%}, without white "
            f"space) are in no chunk and cannot be found; they are in {documents}, {found.documents[0]!r} first.",
        )
