"""Where the numbers of a page are from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ragtrial.comparison.comparing import judged_share
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.report.model import Report


@dataclass(frozen=True)
class Origin:
    """A report, what it is called on the page, and what its settings are made of."""

    name: str
    report: Report
    chunks: str
    judged: str
    models: Sequence[str]

    @property
    def date(self) -> str:
        """``2026-11-23 11:57 UTC`` for an id that begins with a time, else nothing."""
        with suppress(ValueError):
            return f"{datetime.strptime(self.report.run_id.partition('-')[0], '%Y%m%dT%H%M%SZ'):%Y-%m-%d %H:%M} UTC"
        return ""

    @property
    def config(self) -> str:
        """As YAML; nothing for runs that were made elsewhere."""
        import yaml

        config = json.loads(json.dumps(self.report.config))  # of a report of this process texts know their places
        return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100) if config else ""


def origins_of(contest: ComparisonInput) -> Iterator[Origin]:
    """One for each report, in their order."""
    for name in contest.report_names:
        own = [contender for contender in contest.settings if contender.report_name == name]
        chunks = _ends([one.part.counts.get("chunks") for one in own], "{:,}")
        judged = _ends([judged_share(one, contest.primary) for one in own], "{:.0%}")
        models = dict.fromkeys(model for one in own for model in _models(one.part.parameters))
        yield Origin(name, own[0].report, chunks, judged, list(models))


def _ends(values: Sequence[float | None], shape: str) -> str:
    """The lowest and the highest value; one where they look alike, nothing where there is none."""
    known = [value for value in values if value is not None]
    return " to ".join(dict.fromkeys(map(shape.format, (min(known), max(known))))) if known else ""


def _models(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Those of a setting and of its parts: of embedders, of rerankers."""
    embedder, retriever = (parameters.get(stage) or {} for stage in ("embedder", "retriever"))
    named = (embedder.get("model"), embedder.get("function"), retriever.get("model"))
    yield from filter(None, named)
    for part in parameters.get("parts", {}).values():
        yield from _models(part)
