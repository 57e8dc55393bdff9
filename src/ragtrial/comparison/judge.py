"""A model as judge: its judgments, JSON lines apart from the labels of people; scores by its grades, and its worth."""

from __future__ import annotations

import json
import math
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, JsonValue

from ragtrial.cache.untrusted import load_json
from ragtrial.comparison.comparison_input import ComparisonInput, Pair, PairedScores
from ragtrial.comparison.comparison_parts import AgreementPart, BiasPart, JudgedComparisonPart, JudgePart
from ragtrial.comparison.judged_rankings import HitKey, JudgedRankings
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.comparison.statistics import estimates
from ragtrial.comparison.statistics.procedures import Basis, TwoPhaseInference, TwoPhaseSample, infer_two_phase
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Procedure
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, InputError, ReportError, counted, listed
from ragtrial.evaluation.clusters import linearised
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.options import Options, validate
from ragtrial.rankings import Bools
from ragtrial.records import CHOSEN_BY_STAKES, DRAWN_AT_RANDOM, NOT_REVIEWED, Judgment, Query, ReportWarning, Span

HIGHEST = 3
"""The highest grade of the scale: 0 nothing to do with it, 1 related, 2 an answer in part, 3 the answer itself."""

_ON_SCALE = {1: (0, 0, 1, 1), 2: (0, 0, 1, 2)}
"""The grades on the scale of people whose highest grade is 1 or 2: only an answer counts."""

_MOST_FAULTS = 5


class JudgmentsError(InputError):
    """A file of a model's judgments cannot be read, or cannot be used with these labels."""


class ModelJudgment(Options):
    """A model's judgment of a text that a setting found for a query."""

    query: str
    """The id of the query."""

    doc: str
    """The id of the document."""

    start: Annotated[int, Field(ge=0)] | None = None
    """Where the passage begins in the document's normalised text; null where documents are found."""

    end: Annotated[int, Field(ge=0)] | None = None
    """The character behind its last; null as `start` is."""

    grade: Annotated[int, Field(ge=0, le=HIGHEST)] | None
    """From 0 to 3; null where the reply names none, which counts as not judged, never as 0."""

    model: str
    """The model, as its endpoint names it."""

    prompt: str
    """The first 16 hexadecimal digits of the SHA-256 of the prompt's template."""

    parameters: dict[str, JsonValue] = Field(default={})
    """The parameters of the request, such as temperature and seed."""

    reply: str | None = None
    """The reply, without the model's thoughts; null for a judge without text."""

    refusal: str | None = None
    """Why its endpoint refused to judge the text; null where it did not."""

    input_tokens: int | None = None
    """Billed input tokens, if the endpoint reports them."""

    output_tokens: int | None = None
    """Billed output tokens, if the endpoint reports them."""

    cost: float | None = None
    """At the prices given; null without them, 0 where an equal request was paid for another judgment."""

    when: str | None = None
    """The time at which the reply was read, UTC."""

    checksum: str | None = None
    """The CRC-32 checksum of the judgment without this field; null in files of other tools."""

    @property
    def found(self) -> HitKey:
        """The judged text, in the form of rankings."""
        return self.doc if self.start is None or self.end is None else (self.doc, self.start, self.end)

    @property
    def judge(self) -> str:
        """The identity of the judge: another model, prompt or parameters make another judge."""
        return json.dumps([self.model, self.prompt, self.parameters], sort_keys=True)


@dataclass(frozen=True)
class ModelJudgments:
    """All judgments of one model with one prompt, in a ``file``; of a text that it judged twice the first."""

    file: Path
    rows: Sequence[ModelJudgment]

    @property
    def model(self) -> str:
        return self.rows[0].model

    @property
    def prompt(self) -> str:
        return self.rows[0].prompt

    @cached_property
    def grades(self) -> Mapping[str, Mapping[HitKey, int | None]]:
        """By query, the grade of each text; None where the reply named none."""
        found: dict[str, dict[HitKey, int | None]] = {}
        for row in self.rows:
            found.setdefault(row.query, {}).setdefault(row.found, row.grade)
        return found

    @property
    def unparsable(self) -> int:
        """Judgments without a grade."""
        return sum(row.grade is None for row in self.rows)

    @property
    def cost(self) -> float | None:
        """The total cost; None if the cost of any judgment is unknown."""
        costs = [row.cost for row in self.rows]
        return sum(cost for cost in costs if cost is not None) if None not in costs else None


def read_judgments(path: str | Path) -> ModelJudgments:
    """The judgments of the file at ``path``. Raises JudgmentsError with the faults and their lines."""
    file = Path(path)
    faults: list[Fault] = []
    rows: list[ModelJudgment] = []
    for number, line in enumerate(read_text(file, JudgmentsError).split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line, file, number))
        except JudgmentsError as error:
            faults += error.faults
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = [Fault(str(file), message=f"and {counted(more, 'more fault')} like these.")] if more > 0 else []
        raise JudgmentsError(*faults[:_MOST_FAULTS], *rest)
    if not rows:
        message = "has no judgments. Make some: ragtrial judge REPORT --endpoint URL --model NAME."
        raise JudgmentsError(Fault(str(file), message=message))
    judges = list(dict.fromkeys(row.judge for row in rows))
    if len(judges) > 1:
        message = (
            f"has judgments of {len(judges)} judges: {listed(_told(judges), 4)}. Model, prompt and parameters must be "
            "the same for all questions, or agreement with people says nothing. Judge all questions again with one of "
            "them, into another file."
        )
        raise JudgmentsError(Fault(str(file), message=message))
    return ModelJudgments(file, rows)


def sealed(judgment: Mapping[str, Any]) -> dict[str, Any]:
    """A judgment as JSON values, with its checksum."""
    bare = {name: value for name, value in judgment.items() if name != "checksum"}
    content = json.dumps(bare, sort_keys=True).encode()
    return {**bare, "checksum": f"{zlib.crc32(content):08x}"}


def on_scale(grade: int, highest: int) -> int:
    """A grade of the judge's on people's scale, whose highest grade is ``highest``."""
    return _ON_SCALE[max(highest, 1)][grade] if highest < HIGHEST else grade


def _row(line: str, file: Path, number: int) -> ModelJudgment:
    def fault(_where: object, message: str) -> Fault:
        return Fault(str(file), number, message=message)

    try:
        value = load_json(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise JudgmentsError(fault((), "is not a JSON object, as each judgment is. Remove the line."))
    if "checksum" in value and value != sealed(value):
        message = "has other bytes than were written. Remove the line, or, if you changed it, its checksum."
        raise JudgmentsError(fault((), message))
    return validate(ModelJudgment, value, JudgmentsError, fault)


def _told(judges: Sequence[str]) -> Iterator[str]:
    for model, prompt, parameters in map(json.loads, judges):
        asked = ", ".join(f"{name} {value}" for name, value in parameters.items())
        yield f"{model} (prompt {prompt}{', ' if asked else ''}{asked})"


LEAST_PEOPLE = 15
"""With fewer queries judged by people, little is known about a judge's errors."""


@dataclass(frozen=True, eq=False)
class JudgeSide:
    """The judge's side of ``inputs``, whose ``people`` are the queries that people judged.

    ``covered`` marks the queries for which the judge judged all that counts, shape (queries,). ``drawn`` is true if the
    labels state that people's queries were drawn at random.
    """

    inputs: ComparisonInput
    judgments: ModelJudgments
    covered: Bools
    drawn: bool
    highest: int
    """People's highest grade, on whose scale the judge's are."""

    warnings: tuple[ReportWarning, ...]
    _scores: dict[str, PairedScores] = field(default_factory=dict)

    @property
    def people(self) -> Bools:
        """Which queries count for people, (queries,)."""
        known = self.inputs.people or frozenset()
        return np.array([query.id in known for query in self.inputs.queries], dtype=np.bool_)

    def scores(self, metric: str) -> PairedScores:
        """The scores of settings by the judge's grades; NaN for a query that the judge did not judge.

        If the judge finds nothing relevant for a query, all settings have 0. A metric that needs more than rankings is
        NaN throughout.
        """
        if metric not in self._scores:
            values = np.full((len(self.inputs.settings), len(self.inputs.queries)), np.nan)
            rows = np.flatnonzero(self.covered).tolist()
            try:
                for index in range(len(values)):
                    values[index, rows] = self.rankings.scores(index, parse_metric(metric), [(row, {}) for row in rows])
            except ReportError:
                values[:] = np.nan
            self._scores[metric] = PairedScores(metric, values)
        return self._scores[metric]

    def sample(self, people: PairedScores, pairs: Sequence[Pair]) -> TwoPhaseSample:
        """The differences of ``pairs`` as both have them."""
        judge = self.scores(people.metric).differences(pairs)
        return TwoPhaseSample(people.differences(pairs), judge, self.inputs.clusters)

    def means(self, people: PairedScores) -> Scores:
        """Each setting's mean over all queries, estimated from both; NaN where people judged none; (settings,)."""
        sample = TwoPhaseSample(people.values, self.scores(people.metric).values)
        return infer_two_phase([sample], Procedure(flips=100))[0].inference.mean

    def pairs_of_grades(self) -> list[tuple[int, int]]:
        """The grades of the texts that both judged: people's, and the judge's on their scale."""
        own = JudgedRankings(self.inputs)
        return [
            (theirs, on_scale(grade, self.highest))
            for row in np.flatnonzero(self.people).tolist()
            for found, grade in self.judgments.grades.get(self.inputs.queries[row].id, {}).items()
            if grade is not None and (theirs := own.grade(row, found)) is not None
        ]

    @cached_property
    def rankings(self) -> JudgedRankings:
        """The rankings, judged by the judge's grades alone."""
        labels = []
        for query in self.inputs.queries:
            judgments = []
            for found, grade in self.judgments.grades.get(query.id, {}).items():
                doc, spans = (found, ()) if isinstance(found, str) else (found[0], (Span(*found[1:]),))
                if grade is not None:
                    judgments.append(Judgment(doc, on_scale(grade, self.highest), spans=spans))
            labels.append(Query(query.id, query.text, tuple(judgments)))
        return JudgedRankings(self.inputs, labels)


def judge_side(inputs: ComparisonInput, judgments: ModelJudgments) -> JudgeSide:
    """Both sides of ``inputs``. The ``inputs`` of the result are limited to the queries that count for people.

    Raises JudgmentsError if people's queries were chosen because settings disagree on them, or the judge judged no
    query completely; ReportError for rankings that cannot be read.
    """
    rankings, queries = JudgedRankings(inputs), inputs.queries
    depth = rankings.usual_depth()
    labelled = [row for row, query in enumerate(queries) if query.relevant_docs and NOT_REVIEWED not in query.tags]
    random = [row for row in labelled if DRAWN_AT_RANDOM in queries[row].tags]
    chosen = [queries[row].id for row in labelled if CHOSEN_BY_STAKES in queries[row].tags]
    if chosen and not random:
        raise JudgmentsError(
            f"{counted(len(chosen), 'query', 'queries')} that people judged ({listed(chosen, 3)}) were chosen because "
            "the settings disagree on them. The judge's errors differ between such queries and others, so these labels "
            "cannot correct it. Draw queries at random, and label those: ragtrial pool REPORT --random-queries 40."
        )
    hits = [rankings.best_ranks(row, depth).keys() for row in range(len(queries))]
    graded = [judgments.grades.get(query.id, {}) for query in queries]
    covered = np.array([bool(texts) and texts <= own.keys() for texts, own in zip(hits, graded, strict=True)])
    if not covered.any():
        names = sorted(query.id for query in queries)
        message = f"has no judgments of the compared queries ({listed(names, 3)}); it is for another report."
        if any(graded):
            message = (
                f"has no query with judgments of all texts in the top {depth} of the compared settings. Run ragtrial "
                "judge again: it goes on where it stopped."
            )
        raise JudgmentsError(Fault(str(judgments.file), message=message))
    whole = [row for row in random if all(rankings.grade(row, hit) is not None for hit in hits[row])]
    people = [row for row in (whole if random else labelled) if covered[row]]
    highest = max((label.relevance for row in people for label in queries[row].relevant_docs), default=1)
    judged = replace(inputs, people=frozenset(queries[row].id for row in people))
    warnings = [*_about_people(people, random, whole, labelled, int(covered.sum()))]
    warnings += _circular(inputs, judgments.model)
    return JudgeSide(judged, judgments, covered, bool(random), highest, tuple(warnings))


def _about_people(
    people: Sequence[int], random: Sequence[int], whole: Sequence[int], labelled: Sequence[int], judged: int
) -> Iterator[ReportWarning]:
    """Warnings about people's side."""
    if not people:
        yield ReportWarning.of_verdict(
            "judge-alone",
            "people judged no question, so there is no verdict: a judge may favour a setting, and its grades cannot "
            "show that. Next: ragtrial pool REPORT --random-queries 40.",
        )
        return
    if not random and judged > len(people):
        yield ReportWarning(
            "not-drawn-at-random",
            f"the labels do not say that the {counted(len(people), 'question')} with people's labels were drawn at "
            f"random from the {judged:,} that the judge judged. If they were not, the intervals are not valid. "
            "`ragtrial pool REPORT --random-queries N` draws queries at random, and the labels then say so.",
        )
    if len(random) > len(whole):
        yield ReportWarning(
            "judged-in-part",
            f"{len(random) - len(whole):,} of {counted(len(random), 'question')} drawn at random have texts that "
            "people did not judge, and are left out. Label these texts, and rescore.",
        )
    if 0 < len(random) < len(labelled):
        yield ReportWarning(
            "not-drawn-at-random",
            f"{counted(len(labelled) - len(random), 'question')} with people's labels were not drawn at random; only "
            "the judge's grades count there.",
        )
    if len(people) < LEAST_PEOPLE:
        yield ReportWarning.of_verdict(
            "few-people",
            f"people judged only {counted(len(people), 'question')}; the intervals were validated from {LEAST_PEOPLE} "
            "questions on.",
        )


def _circular(inputs: ComparisonInput, model: str) -> Iterator[ReportWarning]:
    users = [setting.name for setting in inputs.settings if json.dumps(model) in json.dumps(setting.part.parameters)]
    if users:
        yield ReportWarning(
            "judge-in-pipeline",
            f"the judge's model, {model}, is also used by settings that it judges ({listed(users, 4)}), and may favour "
            "them. The intervals stay valid, but another judge would narrow them more.",
        )


_MOST_PEOPLE = 2**20
_MOST_NAMED = 3

_FALLBACK = {
    Basis.NOT_JUDGED: "the judge judged no more questions than people",
    Basis.NO_SPREAD: "the judge sees almost no difference on the questions that people judged",
    Basis.TOO_FEW_ERRORS: "the judge agrees with people on almost all of their questions, which does not show how "
    "large its errors are on other questions",
}


def judge_part(side: JudgeSide, scores: PairedScores, pairs: Sequence[Pair], two: TwoPhaseInference, margin: float,
               level: float) -> JudgePart:  # fmt: skip
    """The worth of ``side`` in the comparisons ``pairs`` by the primary metric; ``scores`` are people's."""
    names, judge = side.inputs.names, side.scores(scores.metric)
    needed = people_needed(two, margin)
    n = two.inference.n
    bias_ends = _ends(two.bias, two.bias_error, n, level)
    of_people, of_judge = side.sample(scores, pairs).people, judge.differences(pairs)
    comparisons = [
        JudgedComparisonPart(
            baseline=names[pair.baseline],
            setting=names[pair.setting],
            basis=two.basis[row],
            people_difference=estimates.mean_of(of_people[row][~np.isnan(of_judge[row])]),
            judge_difference=estimates.mean_of(of_judge[row]),
            correlation=estimates.finite(two.correlation[row]),
            bias=estimates.finite(two.bias[row]),
            bias_ci=bias_ends[row],
            worth=estimates.finite(two.worth[row]),
            people_needed=needed[row],
        )
        for row, pair in enumerate(pairs)
    ]
    part = JudgePart(
        file=str(side.judgments.file),
        model=side.judgments.model,
        prompt=side.judgments.prompt,
        people=int(side.people.sum()),
        judged=int(side.covered.sum()),
        drawn_at_random=side.drawn,
        judgments=len(side.judgments.rows),
        unparsable=side.judgments.unparsable,
        cost=side.judgments.cost,
        agreement=_agreement(side),
        comparisons=comparisons,
        bias=_bias(side, scores, judge, level),
        sentences=[],
    )
    return part.model_copy(update={"sentences": list(_sentences(part, margin))})


def people_needed(two: TwoPhaseInference, margin: float) -> list[int | None]:
    """How many questions people have to judge to detect ``margin`` with 80% power, with this judge.

    None if that is unknown, or no number is enough because the judge has to judge more questions, too.
    """
    level = estimates.level_of(two.inference.criticals, two.inference.n)
    share = two.inference.n / np.maximum(two.people, 1)
    rows = zip(two.residual.tolist(), two.fixed.tolist(), level.tolist(), share.tolist(), strict=True)
    return [_needed(margin, *row) for row in rows]


def _needed(margin: float, residual: float, fixed: float, level: float, share: float) -> int | None:
    """As ``people_needed``, of one comparison; there are ``share`` clusters for each question, in (0, 1]."""
    from scipy.special import stdtrit

    if not (margin > 0 and math.isfinite(level) and residual + fixed > 0):
        return None

    def is_enough(n: int) -> int:
        clusters = int(n * share)
        deviation = np.array([math.sqrt((residual / n + fixed) * clusters)])
        critical = np.array([-float(stdtrit(min(n - 2, clusters - 1), level / 2))])
        return int(estimates.detectable_difference(deviation, np.array([clusters]), critical)[0] <= margin)

    sizes = range(math.ceil(LEAST_DIFFERENCES / share), _MOST_PEOPLE)
    index = bisect_left(sizes, 1, key=is_enough)
    return sizes[index] if index < len(sizes) else None


def _agreement(side: JudgeSide) -> AgreementPart:
    pairs = side.pairs_of_grades()
    grades = sorted({grade for pair in pairs for grade in pair})
    table = estimates.confusion(pairs, grades)
    kappa = estimates.weighted_kappa(table, grades) if pairs else None
    value, ci = (None, None) if kappa is None else (kappa.value, (kappa.low, kappa.high))
    alike, counts = int(table.trace()), table.tolist()
    return AgreementPart(n=len(pairs), alike=alike, grades=grades, confusion=counts, kappa=value, kappa_ci=ci)


def _bias(side: JudgeSide, scores: PairedScores, judge: PairedScores, level: float) -> list[BiasPart]:
    known = [linearised(row[None], side.inputs.clusters)[0] for row in judge.values - scores.values]
    n = np.array([len(row) for row in known])
    means = np.array([row.mean() if len(row) else math.nan for row in known])
    error = np.array([row.std(ddof=1) / math.sqrt(len(row)) if len(row) > 1 else math.nan for row in known])
    rows = zip(side.inputs.names, means, _ends(means, error, n, level), strict=True)
    return [BiasPart(setting=name, bias=estimates.finite(mean), ci=end) for name, mean, end in rows]


def _sentences(part: JudgePart, margin: float) -> Iterator[str]:
    if not part.people:
        yield f"No verdict: people judged no question. The judge, {part.model}, judged {part.judged:,}."
        return
    how = ", drawn at random" if part.drawn_at_random else ""
    yield f"People judged {counted(part.people, 'question')}{how}; the judge, {part.model}, judged {part.judged:,}."
    yield (
        "Means here are estimated from both for all questions, and one without a relevant text counts as 0; "
        "`ragtrial show` has the means of the scored questions."
    )
    yield from _worth(part)
    agreement = part.agreement
    kappa = ""
    if agreement.kappa is not None and agreement.kappa_ci is not None:
        kappa = f"; weighted kappa {agreement.kappa:.2f} ({agreement.kappa_ci[0]:.2f} to {agreement.kappa_ci[1]:.2f})"
    if agreement.n:
        yield f"People and the judge graded {counted(agreement.n, 'text')}, {agreement.alike:,} of them alike{kappa}."
    if part.unparsable:
        yield f"{part.unparsable:,} of the judge's {counted(part.judgments, 'reply', 'replies')} have no grade."
    favoured = max(part.bias, key=lambda own: own.bias if own.bias is not None else -math.inf)
    if favoured.bias is not None and favoured.ci is not None:
        ends = signed_interval(favoured.ci, between=" to ")
        yield f"The judge's largest bias in favour of a setting: {favoured.setting}, {signed(favoured.bias)} ({ends})."
    open_ = [needed for own in part.comparisons if (needed := own.people_needed or 0) > part.people]
    if open_:
        least, most = min(open_), max(open_)
        number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        yield f"With this judge, people need to judge {number} questions to detect a difference of {margin:g}."


def _worth(judge: JudgePart) -> Iterator[str]:
    """The number of labels that the judge replaces, and comparisons for which it is not used."""
    used = [part for part in judge.comparisons if part.basis is Basis.BOTH and part.worth is not None]
    if used:
        worth = median(part.worth or 0.0 for part in used)
        more = f"{counted(judge.judged - judge.people, 'question')} that only the judge judged"
        typical = "" if len(used) == 1 else " (median of the comparisons)"
        if worth >= 1:
            labels = counted(round(worth), "more question")
            yield f"The {more} narrow the intervals as much as {labels} judged by people would{typical}."
        else:
            yield f"The {more} do not narrow the intervals{typical}."
        correlation = median(part.correlation or 0.0 for part in used)
        yield f"The correlation between the judge's differences and people's is {correlation:.2f}{typical}."
    for basis, why in _FALLBACK.items():
        alone = [f"{part.setting} against {part.baseline}" for part in judge.comparisons if part.basis is basis]
        if alone:
            all_of_them = len(alone) == len(judge.comparisons)
            what = "all comparisons" if all_of_them else listed(alone, _MOST_NAMED)
            yield f"Based on people's labels alone: {what}, because {why}."


def _ends(mean: Scores, error: Scores, n: npt.NDArray[np.int64], level: float) -> list[tuple[float, float] | None]:
    """Student's intervals, each by itself."""
    from scipy.special import stdtrit

    width = -stdtrit(np.maximum(n - 1, 1), level / 2) * error
    return [(float(low), float(high)) if math.isfinite(low) else None
            for low, high in zip(mean - width, mean + width, strict=True)]  # fmt: skip
