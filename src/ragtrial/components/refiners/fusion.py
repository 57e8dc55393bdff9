"""Fusion: several rankings of the same questions become one, and the refiners that do so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, model_validator

from ragtrial.components.endpoints.chat import PLACE, PROMPTS, WORDINGS_VERSION, ChatOptions, WordingWriter
from ragtrial.components.interfaces import Candidates, Fact, Facts, RetrieverContext, place_keys
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, Refiner, SingleInputRefiner
from ragtrial.dataset.chunks import Chunks, SpanCodes
from ragtrial.errors import RunError, listed
from ragtrial.rankings import PADDING, Bools, Codes, Counts, Doubles, Rankings, collapse, unfilled
from ragtrial.records import Question, ReportWarning

Method = Literal["rrf", "weighted"]
Normalisation = Literal["min_max", "z_score", "none"]

_BLOCK = 1 << 20
"""The approximate number of hits that are fused at a time."""

_LEAST, _MOST = 1e-6, 1e6
"""If all weights are below, or some above, sums of scores may be 0 or infinite as float32, and all hits equal."""


@dataclass(frozen=True, eq=False)
class Fused:
    """The one ranking, with where each of its units came from; all arrays have the shape of its codes.

    ``rankings`` are sorted by score as it is stored (float32); equal scores are in the order that was given. ``lists``
    counts the lists that contain the unit, 0 at the padding. Its best position is ``column`` (from 0) of the list
    ``best``. Ties: the list with the greater weight, then the first.
    """

    rankings: Rankings
    lists: Codes
    best: Codes
    column: Codes


Keys = Callable[[Codes], tuple[npt.NDArray[Any], ...]]
"""The keys by which ``np.lexsort`` orders units of equal score."""


def fuse(
    parts: Sequence[Rankings], options: FusingRefiner, keys: Keys, weights: Sequence[float] | None = None
) -> Fused:
    """One ranking for each question of all that is in any of ``parts``, which have a row for each question.

    ``rrf`` adds weight / (rank_constant + rank) over the lists that contain the unit (Cormack, Clarke & Buettcher
    2009). ``weighted`` adds the scores after ``normalisation``, times the weight of each list (CombSUM, Fox & Shaw
    1994); a unit that is missing from a list gets the lowest value of that list. ``weights`` belong to the lists in
    their order; None means 1 for all.

    The rankings may differ in depth, and may be empty. If a unit is in a list twice, the first position counts. Scores
    must be finite where they are needed.
    """
    lists = [collapse(part, np.arange(part.codes.max(initial=PADDING) + 1, dtype=np.int32)).rankings for part in parts]
    units = np.unique(np.concatenate([part.codes[part.codes != PADDING] for part in lists]))
    order = units[np.lexsort(keys(units))]
    place = np.empty(units.max(initial=PADDING) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))

    list_weights = np.ones(len(parts)) if weights is None else np.asarray(weights, dtype=np.float64)
    size = max(1, _BLOCK // max(1, sum(part.depth for part in lists)))
    blocks = []
    for start in range(0, max(1, len(parts[0])), size):
        some = [Rankings(part.codes[start : start + size], part.scores[start : start + size]) for part in lists]
        blocks.append(_fused_rows(some, start, options, list_weights, place))
    rows, places, scores, found_in, best, column = map(np.concatenate, zip(*blocks, strict=True))
    counts = np.bincount(rows, minlength=len(parts[0]))
    rankings = unfilled(len(parts[0]), int(counts.max(initial=0)))
    fused = Fused(rankings, np.zeros_like(rankings.codes), rankings.codes.copy(), rankings.codes.copy())
    filled = np.arange(rankings.depth) < counts[:, np.newaxis]
    rankings.codes[filled], rankings.scores[filled] = order[places], scores
    fused.lists[filled], fused.best[filled], fused.column[filled] = found_in, best, column
    return fused


def _fused_rows(
    parts: Sequence[Rankings], first: int, options: FusingRefiner, weights: Doubles, place: Counts
) -> tuple[npt.NDArray[Any], ...]:
    """The fused units of the questions from ``first`` on, best first: the columns that ``fuse`` writes down.

    A cell is a unit that any list has for a question, by question, then by place.
    """
    preferred = np.lexsort((np.arange(len(parts)), -weights))
    hits = [np.nonzero(part.codes != PADDING) for part in parts]
    placed = zip(parts, hits, strict=True)
    numbers = [row.astype(np.int64) * len(place) + place[part.codes[row, at]] for part, (row, at) in placed]
    cells, cell_of = np.unique(np.concatenate(numbers), return_inverse=True)
    row_of, place_of = np.divmod(cells, max(len(place), 1))
    cells_of = np.split(cell_of, np.cumsum([len(part) for part in numbers])[:-1])

    table = np.empty((len(parts), len(cells)))
    best = np.full(len(cells), np.iinfo(np.int64).max)  # the column, then the most preferred list
    for index, (part, (row, column), own) in enumerate(zip(parts, hits, cells_of, strict=True)):
        added, missing = _contribution(part, options, float(weights[index]))
        table[index] = missing[row_of]
        table[index, own] = added[row, column]
        best[own] = np.minimum(best[own], column * len(parts) + int(np.flatnonzero(preferred == index)[0]))
    table.sort(axis=0)  # added from the smallest up, so that equal scores stay equal in any order of the parts
    scores = table.sum(axis=0).astype(np.float32)
    found_in = np.bincount(cell_of, minlength=len(cells))
    ranked = np.lexsort((-scores, row_of))
    column, which = np.divmod(best[ranked], len(parts))
    return row_of[ranked] + first, place_of[ranked], scores[ranked], found_in[ranked], preferred[which], column


def _contribution(part: Rankings, options: FusingRefiner, weight: float) -> tuple[Doubles, Doubles]:
    """The addend of each hit of a list, shape as the list, and the addend for a unit that is missing from it."""
    if options.method == "rrf":
        added = weight / (options.rank_constant + np.arange(1, part.depth + 1))
        return np.broadcast_to(added, part.codes.shape), np.zeros(len(part))
    present = part.codes != PADDING
    scores = np.where(present, part.scores, 0.0).astype(np.float64)
    values, missing = normalised(scores, present, options.normalisation)
    return values * weight, missing * weight


def normalised(scores: Doubles, present: Bools, normalisation: Normalisation) -> tuple[Doubles, Doubles]:
    """The normalised scores of each row, shape as ``scores``, and the value of a missing unit, shape (rows,).

    * ``min_max``: (s - min) / (max - min), in [0, 1]. Equal scores become 1.
    * ``z_score``: (s - mean) / standard deviation, with the deviation over n. Equal scores become 0.
    * ``none``: the scores.

    A missing unit gets the lowest value of the row. Where all values of a row are equal (one hit, equal scores) that
    would make found and missing the same, so there a missing unit gets 0, but under ``none`` the score itself. An empty
    row gives it 0. Values are arbitrary where nothing is ``present``.
    """
    count = present.sum(axis=1)
    lowest = np.where(count > 0, np.where(present, scores, np.inf).min(axis=1, initial=np.inf), 0.0)
    highest = np.where(count > 0, np.where(present, scores, -np.inf).max(axis=1, initial=-np.inf), 0.0)
    if normalisation == "none":
        return scores, lowest
    zero, one, equal = lowest, highest - lowest, 1.0
    if normalisation == "z_score":
        some = np.maximum(count, 1)
        zero, equal = np.where(present, scores, 0.0).sum(axis=1) / some, 0.0
        one = np.sqrt((np.where(present, scores - zero[:, None], 0.0) ** 2).sum(axis=1) / some)
    differ = highest > lowest
    one = np.where(differ, one, 1.0)
    values = np.where(differ[:, None], (scores - zero[:, None]) / one[:, None], equal)
    return values, np.where(differ, (lowest - zero) / one, 0.0)


class FusingRefiner(Refiner):
    """A refiner that makes one ranking of several."""

    method: Method = "rrf"
    """The way to fuse rankings: rrf (reciprocal ranks, without scores) or weighted (the sum of the normalised scores,
    each times its weight)."""

    rank_constant: Annotated[int, Field(ge=0, le=100_000)] = 60
    """method: rrf adds 1 / (rank_constant + rank): the higher, the less the first ranks count."""

    normalisation: Normalisation = "min_max"
    """How scores are normalised (not for rrf): min_max (to 0..1), z_score (mean 0, deviation 1), none (the scores as
    they are)."""

    @model_validator(mode="after")
    def _options_go_with_the_method(self) -> Self:
        if self.method == "rrf" and "normalisation" in self.model_fields_set:
            raise ValueError("`normalisation` is not used by method: rrf; leave it out, or set method: weighted.")
        if self.method != "rrf" and "rank_constant" in self.model_fields_set:
            raise ValueError(f"`rank_constant` is used by method: rrf alone, not by {self.method}; leave it out.")
        return self

    def has_comparable_scores(self, of_parts: Sequence[bool]) -> bool:
        """Not those of ranks, nor those that are normalised within each question."""
        return self.method != "rrf" and self.normalisation == "none" and all(of_parts)

    def hashed_options(self) -> dict[str, Any]:
        unused = "normalisation" if self.method == "rrf" else "rank_constant"
        return {name: value for name, value in super().hashed_options().items() if name != unused}

    def fuse(
        self, names: Sequence[str], lists: Sequence[Rankings], keys: Keys, weights: Sequence[float] | None = None
    ) -> Fused:
        """One ranking from several. If the scores of parts cannot be fused, a RunError gives their ``names``."""
        for name, ranking in zip(names, lists, strict=True) if self.method != "rrf" else ():
            bad = (ranking.codes != PADDING) & ~np.isfinite(ranking.scores)
            if bad.any():
                raise RunError(
                    f"the hits of {name!r} have no finite scores for {int(bad.any(axis=1).sum()):,} of "
                    f"{len(ranking):,} queries, which method: {self.method} cannot use; set method: rrf, which looks "
                    "at ranks alone."
                )
        with np.errstate(over="ignore"):  # reported below
            fused = fuse(lists, self, keys, weights)
        if np.isinf(fused.rankings.scores).any():
            parts = listed(map(repr, dict.fromkeys(names)))
            advice = "set method: rrf or another normalisation"
            raise RunError(f"the scores of {parts} are too large to be added (float32); {advice}.")
        return fused


def _different(names: list[str]) -> list[str]:
    if len(set(names)) < max(2, len(names)):
        message = f"names {', '.join(names) or 'nothing'}; it must name at least two retrievers, each once."
        raise ValueError(message)
    return names


def _not_all_zero(weights: list[float]) -> list[float]:
    if max(weights, default=0) < _LEAST:
        raise ValueError(f"all weights are below {_LEAST:g}; at least one must reach that.")
    return weights


Weight = Annotated[float, Field(ge=0, le=_MOST, allow_inf_nan=False)]


@REFINERS.register("fusion")
class FusionRefiner(FusingRefiner):
    """The rankings of several retrievers as one: hybrid retrieval.

    Parts that rank the same chunks are fused chunk by chunk, others document by document.
    """

    explanation: ClassVar[str] = "fuses {parts} ({method}); a hit's score is the fused one"

    kind: Literal["fusion"] = "fusion"
    """The rankings of several retrievers as one: hybrid retrieval. Parts that rank the same chunks are fused chunk by
    chunk, others document by document."""

    input_names: Annotated[list[str], AfterValidator(_different)] = Field(alias="inputs")
    """The names of the retrievers or refiners whose rankings are fused: at least two."""

    weights: Annotated[list[Weight], AfterValidator(_not_all_zero)] | None = None
    """How much each of them counts, in the order of `inputs` (default: all alike)."""

    @model_validator(mode="after")
    def _weights_belong_to_inputs(self) -> Self:
        if self.weights is not None and len(self.weights) != len(self.input_names):
            raise ValueError(f"`weights` has {len(self.weights)} values; it must have one for each of `inputs`.")
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.input_names)

    def hashed_options(self) -> dict[str, Any]:
        # Equal weights change no order, but they change scores, which dependent refiners may use.
        weights = None if self.weights is None or set(self.weights) == {1} else self.weights
        return {**super().hashed_options(), "weights": weights}

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenFusion(self, SpanCodes(context.library))


@dataclass(frozen=True)
class _OpenFusion:
    options: FusionRefiner
    places: SpanCodes

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        skipped = np.logical_or.reduce([part.skipped for part in parts])
        units, rankings = parts[0].units, [_without(part.rankings, skipped) for part in parts]
        by_chunk = len({part.units.name for part in parts}) == 1
        if by_chunk:
            fused = self._fused(rankings, partial(place_keys, units))
        else:
            fused, units = self._by_document(rankings, [part.units for part in parts])
        found = fused.lists[~skipped]
        counts = {"mean_fused": found > 0, "mean_in_all": found == len(parts), "mean_in_one": found == 1}
        facts: dict[str, Fact] = {"fused_by": "chunk" if by_chunk else "document"}
        facts.update({name: float(of.sum(axis=1).mean()) if len(of) else None for name, of in counts.items()})
        return Candidates(units, fused.rankings, skipped, facts)

    def _fused(self, rankings: Sequence[Rankings], keys: Keys) -> Fused:
        return self.options.fuse(self.options.input_names, rankings, keys, self.options.weights)

    def _by_document(self, rankings: Sequence[Rankings], units: Sequence[Chunks]) -> tuple[Fused, Chunks]:
        """Each document is represented by its unit in the part that ranks it best."""
        parts = [collapse(part, own.document) for part, own in zip(rankings, units, strict=True)]
        id_order = self.places.library.id_order
        fused = self._fused([part.rankings for part in parts], lambda codes: (id_order[codes],))
        codes = np.full_like(fused.rankings.codes, PADDING)
        for index, (part, own) in enumerate(zip(parts, units, strict=True)):
            mine = fused.best == index
            distinct, which = np.unique(part.units[np.nonzero(mine)[0], fused.column[mine]], return_inverse=True)
            bounds = zip(*(column[distinct].tolist() for column in (own.document, own.start, own.end)), strict=True)
            codes[mine] = np.array([self.places.code(*place) for place in bounds], dtype=np.int32)[which]
        return replace(fused, rankings=Rankings(codes, fused.rankings.scores)), self.places.chunks()


def _without(rankings: Rankings, skipped: Bools) -> Rankings:
    """The rankings with nothing in the rows that are skipped."""
    if not skipped.any():
        return rankings
    codes = np.where(skipped[:, None], np.int32(PADDING), rankings.codes)
    return Rankings(codes, np.where(codes == PADDING, np.float32(np.nan), rankings.scores))


def _with_query(template: str) -> str:
    if PLACE not in template:
        raise ValueError(f"has no {PLACE}, the place of the question's text; write it, like 'A passage about {PLACE}'.")
    return template


@REFINERS.register("expand")
class ExpandRefiner(SingleInputRefiner, FusingRefiner):
    """Query expansion: several wordings of each query are asked of one retriever, and their hits are fused."""

    explanation: ClassVar[str] = "fuses what {parts} finds for several wordings of the question ({method})"

    asks_other_texts: ClassVar[bool] = True

    kind: Literal["expand"] = "expand"
    """Query expansion: several wordings of each query are asked of one retriever, and their hits are fused."""

    templates: list[Annotated[str, AfterValidator(_with_query)]] = Field(default=[])
    """Extra wordings, with {query} as the placeholder for the query, like `A passage about {query}`."""

    phrasings: bool = True
    """Also ask the `phrasings` that the labels have for a query."""

    endpoint: ChatOptions | None = None
    """A chat model behind an OpenAI-compatible endpoint that writes more wordings of each query; every reply is
    kept."""

    prompt: str = "rewrites"
    """The request to the chat model: rewrites (three other wordings), answer (a passage that answers the query, HyDE),
    or your own text with {query} as the placeholder."""

    lines: bool | None = None
    """Treat each line of a reply as a separate wording, instead of the whole reply as one (default: true, except for
    answer)."""

    question: bool = True
    """Also ask the query itself. With false, it is asked only where there is no other wording."""

    @model_validator(mode="after")
    def _has_wordings(self) -> Self:
        if self.endpoint is not None and self.prompt not in PROMPTS and PLACE not in self.prompt:
            known = ", ".join(PROMPTS)
            message = f"prompt is {self.prompt[:40]!r}; it must be one of: {known}; or a text with {PLACE} in it."
            raise ValueError(message)
        if self.endpoint is None and (without := self.model_fields_set & {"prompt", "lines"}):
            message = f"has {listed(sorted(without))}, but no endpoint to use it; add one: `endpoint: {{model: ...}}`."
            raise ValueError(message)
        if self.endpoint is not None or self.phrasings or any(template.strip() != PLACE for template in self.templates):
            return self
        raise ValueError(
            "asks nothing but the query itself; give `templates` that say more than {query}, or leave phrasings: true."
        )

    @property
    def writer(self) -> WordingWriter | None:
        if self.endpoint is None:
            return None
        by_line = self.prompt != "answer" if self.lines is None else self.lines
        return WordingWriter(self.endpoint, self.prompt, by_line)

    @property
    def has_latency(self) -> bool:
        """Not with a chat model: measuring latency would pay for each question once more."""
        return self.endpoint is None

    def hashed_options(self) -> dict[str, Any]:
        """Without the options of the chat model; its wordings are part of ``asked``."""
        parts = super().hashed_options()
        for name in ("endpoint", "prompt", "lines"):
            del parts[name]
        if self.writer is None:
            return parts
        return parts | {"writer": [self.writer.key, WORDINGS_VERSION if self.writer.by_line else 0]}

    def cost(self, facts: Facts) -> float | None:
        read, written = facts.get("input_tokens"), facts.get("output_tokens")
        if self.endpoint is None or read is None or written is None:
            return None
        return self.endpoint.cost_of(float(read), float(written))

    def wordings(self, question: Question) -> Sequence[Question]:
        """The wordings to ask, each once: the question, the labels' wordings, the templates, then a chat model's.

        Only the question's own text keeps its id: rankings kept under the id must not be rankings of another text.
        """
        texts = [question.text] if self.question else []
        texts += question.phrasings if self.phrasings else ()
        texts += [template.replace(PLACE, question.text) for template in self.templates]
        texts += self.writer.texts(question) if self.writer else ()
        distinct: dict[str, str] = {}
        for text in texts or [question.text]:
            distinct.setdefault(text.strip(), text)
        return [
            replace(question, text=text, phrasings=(), written=(), id=question.id if text == question.text else "")
            for text in distinct.values()
        ]

    def asked(self, question: Question) -> Any:
        return [wording.text for wording in self.wordings(question)]

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenExpand(self)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.writer is not None:
            if facts.get("without_reply"):
                yield ReportWarning(
                    "no-reply",
                    f"{setting}: for {facts['without_reply']:,} of {facts['queries']:,} queries the chat model wrote "
                    "nothing; only the other wordings were asked.",
                )
        elif self.phrasings and facts.get("queries") and facts["queries"] == facts.get("without_phrasings"):
            yield ReportWarning(
                "no-phrasings",
                f"{setting}: no query has `phrasings` in the labels, so nothing but the query"
                f"{' and the templates were' if self.templates else ' was'} asked; write phrasings into the labels, "
                f"{'or set phrasings: false' if self.templates else 'or give templates'}.",
            )


@dataclass(frozen=True)
class _OpenExpand:
    options: ExpandRefiner

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        counts = np.array([len(self.options.wordings(question)) for question in questions], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        skipped = np.zeros(len(questions), dtype=np.bool_)
        np.logical_or.at(skipped, np.repeat(np.arange(len(questions)), counts), part.skipped)
        lists = []  # the rankings of the first wording of each question, then of the second, and so on
        for number in range(max(1, int(counts.max(initial=0)))):
            asked, rankings = (counts > number) & ~skipped, unfilled(len(questions), part.rankings.depth)
            rankings.codes[asked] = part.rankings.codes[starts[asked] + number]
            rankings.scores[asked] = part.rankings.scores[starts[asked] + number]
            lists.append(rankings)
        fused = self.options.fuse([self.options.input_name] * len(lists), lists, partial(place_keys, part.units))
        facts: dict[str, Fact] = {
            "queries": len(questions),
            "mean_wordings": float(counts.mean()) if len(counts) else None,
            "without_phrasings": sum(not question.phrasings for question in questions),
            **self._written(questions),
        }
        return Candidates(part.units, fused.rankings, skipped, facts)

    def _written(self, questions: Sequence[Question]) -> Facts:
        writer = self.options.writer
        if writer is None:
            return {}
        replies = [reply for question in questions for reply in writer.replies(question)]
        facts: dict[str, Fact] = {"without_reply": sum(not writer.texts(question) for question in questions)}
        known = all(reply.input_tokens is not None and reply.output_tokens is not None for reply in replies)
        for name in ("input_tokens", "output_tokens"):
            facts[name] = sum(getattr(reply, name) for reply in replies) if known else None
        return facts
