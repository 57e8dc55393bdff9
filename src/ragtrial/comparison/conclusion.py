"""What a comparison comes to, in the words that every form of it begins with: best, better, worse, undecided, next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ragtrial.comparison.comparison_parts import ComparisonPart, ConclusionPart, ProcedurePart
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.comparison.statistics.selection import SelectionPart
from ragtrial.errors import counted, listed

MOST_NAMED = 20
LABELLED_AT_ONCE = 100
"""About as many questions as somebody labels in a day or two."""

_CHEAPEST = "pick the cheapest of these settings (ragtrial show --costs)"
_WORSE = ("worse", "worse within the margin")


def conclusion_of(
    parts: Sequence[ComparisonPart],
    procedure: ProcedurePart,
    undecided: Sequence[str],
    settings: Sequence[str],
    selection: SelectionPart | None,
    depend_on_unjudged: Callable[[Sequence[ComparisonPart]], Sequence[bool]] = lambda claims: [False] * len(claims),
) -> ConclusionPart:
    """The conclusion from ``parts``, the comparisons by the primary metric.

    ``undecided`` are the ``settings`` that none is shown to be better than. Against a baseline, better and worse are
    meant compared with it. ``selection`` is None where reports are compared name by name: then no setting is the best.
    ``depend_on_unjudged`` says of claims whether hits without a label could take them back: these are not clear.
    """
    against, metric = procedure.baseline, parts[0].metric if parts else ""
    best = selection.setting if selection else None
    if against is None:
        better: list[str] = []
        worse = [name for name in settings if name not in undecided]
        open_ = [name for name in undecided if name != best]
    else:
        better = [one.setting for one in parts if one.verdict == "better"]
        worse = [one.setting for one in parts if one.verdict in _WORSE]
        open_ = [one.setting for one in parts if one.setting not in {*better, *worse}]
    claims = {name: claim for name in [*better, *worse] if (claim := _deciding(name, parts, against or best))}
    unclear = depend_on_unjudged(list(claims.values()))
    made = ConclusionPart(
        metric=metric,
        best=best,
        score=selection.mean if selection else None,
        expected=selection.corrected if selection else None,
        against=against,
        better=better,
        worse=worse,
        depends_on_unjudged=[name for name, one in zip(claims, unclear, strict=True) if one],
        not_distinguishable=open_,
        next_step="",
        sentences=[],
    )
    made = made.model_copy(update={"next_step": _next_step(made, parts, procedure)})
    return made.model_copy(update={"sentences": list(_sentences(made, parts))})


def _sentences(made: ConclusionPart, parts: Sequence[ComparisonPart]) -> Iterator[str]:
    if made.best is not None and made.score is not None:
        expected = "" if made.expected is None else f"; expect about {made.expected:.3f} on new questions"
        of_best = [one for one in parts if made.best in (one.setting, one.baseline)]
        if of_best and all(map(_is_thin, of_best)):
            yield f"Best so far: {made.best} ({made.metric} {made.score:.3f}{expected}); too few questions to be sure."
        else:
            yield f"Best: {made.best} ({made.metric} {made.score:.3f}{expected})."
    n = max((one.n for one in parts), default=0)
    than, asked = f" than {made.against}" if made.against else "", counted(n, "question")
    for word, names in (("better", made.better), ("worse", made.worse)):
        unclear = [name for name in names if name in made.depends_on_unjudged]
        if clear := [name for name in names if name not in unclear]:
            yield f"Clearly {word}{than}: {listed(clear, MOST_NAMED)}."
        if unclear:
            why = "labels for unlabelled hits could change this"
            yield f"{word.capitalize()}{than} by the labels so far ({why}): {listed(unclear, MOST_NAMED)}."
    if made.not_distinguishable:
        whom = f"from {made.against}" if made.against else "from the best"
        yield f"Not distinguishable {whom} with {asked}: {listed(made.not_distinguishable, MOST_NAMED)}."
    yield made.next_step


def _next_step(made: ConclusionPart, parts: Sequence[ComparisonPart], procedure: ProcedurePart) -> str:
    """One thing to do next."""
    reference = made.against or made.best
    undecided = [one for one in parts if _meets(one, reference, made.not_distinguishable)]
    hardest = max(undecided, key=_questions_missing, default=None)
    if hardest is not None and (missing := _questions_missing(hardest)) > 0:
        if missing > 2 * LABELLED_AT_ONCE and hardest.detectable is not None:
            # What can be found shrinks with the root of the number of questions, as standard errors do.
            reached = hardest.detectable * math.sqrt(hardest.n / (hardest.n + LABELLED_AT_ONCE))
            return (
                f"Next: {_CHEAPEST}, or label more questions: with {LABELLED_AT_ONCE} more, a difference of "
                f"{reached:.2g} can be detected; with about {missing:,} more, one of {procedure.margin:g} (the margin)."
            )
        said = f"Next: label about {missing:,} more questions to detect a difference of {procedure.margin:g}"
        return f"{said}, or {_CHEAPEST}."
    if thin := [one for one in undecided or parts if _is_thin(one)]:
        fewest = min(thin, key=_differing)
        names = f"{fewest.setting} and {fewest.baseline} differ on only"
        more = math.ceil(fewest.n * LEAST_DIFFERENCES / _differing(fewest)) - fewest.n
        return (
            f"Next: label about {more:,} more questions: {names} {_differing(fewest):,} of {fewest.n:,}; at "
            f"least {LEAST_DIFFERENCES} are needed to compare them."
        )
    if parts and made.best is None and all(one.verdict == "identical" for one in parts):
        return "Next: change something; all settings score the same on every question."
    if undecided and all(one.verdict == "identical" for one in undecided):
        if (n := max(one.n for one in undecided)) < LEAST_DIFFERENCES:
            return (
                f"Next: label more questions: comparing settings takes at least {LEAST_DIFFERENCES}, and there are {n}."
            )
        return f"Next: {_CHEAPEST}; they score the same on every question."
    if undecided:
        return f"Next: {_CHEAPEST}; no difference that matters was found."
    if made.depends_on_unjudged:
        return "Next: label the hits that could change these verdicts: ragtrial pool, then ragtrial label."
    return "Next: look at the questions that the best setting loses or every setting fails: ragtrial compare --queries."


def _deciding(name: str, parts: Sequence[ComparisonPart], reference: str | None) -> ComparisonPart | None:
    """The claim by which a setting is better or worse: against ``reference``, or else the largest."""
    claims = [one for one in parts if name in (one.setting, one.baseline) and one.verdict in ("better", *_WORSE)]
    return max(claims, key=lambda one: (_meets(one, reference, [name]), abs(one.difference or 0.0)), default=None)


def _differing(part: ComparisonPart) -> int:
    """Questions on which the two score differently."""
    return part.wins + part.losses


def _is_thin(part: ComparisonPart) -> bool:
    """Whether they score differently on some questions, which are too few to compare them."""
    return part.ci is None and _differing(part) > 0


def _questions_missing(part: ComparisonPart) -> int:
    """How many more questions it takes to find a difference of the margin; 0 if none, or if that is not known."""
    return 0 if part.queries_needed is None else max(part.queries_needed - part.n, 0)


def _meets(part: ComparisonPart, reference: str | None, names: Sequence[str]) -> bool:
    """Whether a comparison is of ``reference`` with one of ``names``."""
    return (part.baseline == reference and part.setting in names) or (
        part.setting == reference and part.baseline in names
    )
