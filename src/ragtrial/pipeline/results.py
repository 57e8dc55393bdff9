"""The result of a setting: rankings, measurements, and diagnostics of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtrial.components.interfaces import REACHING, Candidates, Facts
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.dataset.pdf import PACKAGE as PDF_PACKAGE
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.options import with_variables
from ragtrial.pipeline.measurement_stages import Audited
from ragtrial.pipeline.retrieval import SettingRankings
from ragtrial.report import schema


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Observations about a setting or a part, apart from its rankings.

    ``facts`` come from its retriever, ``health`` describes its own vectors (None without any); ``too_long`` counts
    chunks and queries that its model would cut (None: unknown).
    """

    facts: Facts
    health: schema.HealthPart | None
    too_long: Mapping[str, int | None]


@dataclass(frozen=True, eq=False)
class ComponentRanking:
    """A component of ``composite``, with the hits that ``composite`` used.

    ``found`` is None if the whole asks other wordings; ``diagnostics`` is None if the part is also a setting, which is
    reported there.
    """

    setting: Setting
    composite: Setting
    found: Candidates | None
    diagnostics: Diagnostics | None


@dataclass(frozen=True, eq=False)
class SettingResult:
    """The rankings of a setting before they are scored, and all measurements.

    ``chunks`` are the ranked units: all chunks of a chunker if ``are_all``, otherwise only the retrieved chunks.
    ``index`` describes its own index, empty without one. ``timings`` are seconds per stage in this run; ``latency`` is
    from the run that retrieved; ``audited`` is None if the index is exact. ``parts`` are the components, at any depth,
    that the report shows. ``wordings`` are asked in addition to each question.
    """

    setting: Setting
    fingerprint: str
    chunks: Chunks
    are_all: bool
    ranked: SettingRankings
    diagnostics: Diagnostics
    sizes: ContextSizes
    index: Mapping[str, Any]
    timings: Mapping[str, float]
    latency: schema.LatencyPart | None
    audited: Audited | None
    costs: schema.CostsPart
    parts: tuple[ComponentRanking, ...]
    wordings: Sequence[Sequence[str]] = ()

    def of(self, setting: Setting) -> SettingResult:
        """The result of an equal setting, which may have another name."""
        equal = dict(zip(self.setting.tree(), setting.tree(), strict=True))
        parts = (replace(part, setting=equal[part.setting], composite=equal[part.composite]) for part in self.parts)
        return replace(self, setting=setting, parts=tuple(parts))

    @property
    def described(self) -> dict[str, Any]:
        """The fields of its part of the report that do not depend on labels."""
        health = self.diagnostics.health
        return {
            "fingerprint": self.fingerprint,
            "parameters": setting_parameters(self.setting),
            "comparable": self.setting.has_comparable_scores,
            "facts": dict(self.diagnostics.facts),
            "index": dict(self.index),
            "health": health,
            "timings": dict(self.timings),
            "costs": self.costs,
            "latency": self.latency,
        }

    def counts(self, graded: GradedRankings) -> dict[str, int | None]:
        """The counts of chunks, hits and queries for the report."""
        ranked, skipped, lengths = self.ranked, self.ranked.candidates.skipped, graded.lengths
        return {
            **({"chunks": len(self.chunks)} if self.setting.has_chunks else {}),
            **{f"{what}_too_long": count for what, count in self.diagnostics.too_long.items()},
            "chunks_read": int(ranked.read.sum()),
            "chunks_collapsed": int(ranked.dropped.sum()),
            "documents_kept" if graded.unit == "document" else "chunks_kept": int(lengths.sum()),
            "queries_short": int((lengths < self.setting.retriever.top_k).sum()),
            "queries_without_hits": int(((lengths == 0) & ~skipped).sum()),
            "queries_skipped": int(skipped.sum()),
        }


def setting_parameters(setting: Setting) -> dict[str, Any]:
    """All options of a setting, with defaults; texts (names, paths, variables) are as they were written.

    They are its own options, its chunker, embedder and so on, under ``parts`` the same for its parts, and the sweep's
    ``values`` with the ``entry`` of the config that they belong to.
    """
    written = setting.config.as_written
    own = (written.get("retrievers") or {}).get(setting.entry) or {}
    options = setting.retriever.model_dump(mode="json", exclude={*REACHING, "score"})
    parameters: dict[str, Any] = {"retriever": _as_written(options, own)}
    for section in REACHING:
        if section in setting.depends_on:
            options = getattr(setting, section).model_dump(mode="json")
            parameters[section] = _as_written(options, own.get(section) or written.get(section))
    if setting.parts:
        parameters["parts"] = {part.entry: setting_parameters(part) for part in setting.parts}
    if setting.values:
        parameters["values"] = with_variables(setting.values)
    if setting.name != setting.entry:
        parameters["entry"] = setting.entry
    return parameters


def packages_of(settings: Sequence[Setting], library: Library) -> set[str]:
    """The packages that work on ``settings`` and their documents, as pip names them."""
    parts = {part for setting in settings for part in setting.tree()}
    options = [getattr(part, section) for part in parts for section in ("retriever", *part.depends_on)]
    reader = {PDF_PACKAGE} if library.has_pages else set()
    return reader.union(*(section.packages for section in options))


def _as_written(value: Any, written: Any) -> Any:
    """``value`` with its texts as they are in ``written``; a list of another length as it was written."""
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _as_written(option, written.get(key)) for key, option in value.items()}
    if isinstance(value, list) and isinstance(written, list):
        return list(map(_as_written, value, written)) if len(value) == len(written) else written
    return str(written) if isinstance(written, str) else value
