"""A search in words: the winner, what it may be expected to score, the verdict, and the next step."""

from __future__ import annotations

from collections.abc import Iterator

from ragtrial.comparison.conclusion import labels_to_settle
from ragtrial.errors import counted, listed
from ragtrial.search.parts import ScreenPart, SearchResult


def sentences_of(found: SearchResult) -> Iterator[str]:
    """The result first, one next step last."""
    winner = found.winner
    if winner is None:
        yield f"None of {counted(len(found.trials), 'setting')} meets the limits of search.within."
        yield from _failed(found)
        yield "Next: raise the limits, or search along axes that lower the costs."
        return
    yield f"Best: {winner.setting} ({found.metric} {winner.searched:.3f} on the questions that chose it)."
    if winner.expected is not None:
        expected = winner.expected
        interval = f" (95% interval {expected.ci[0]:.3f} to {expected.ci[1]:.3f})" if expected.ci else ""
        on = f"On {found.held_out} held-out questions: " if found.held_out else "On new questions expect about "
        yield f"{on}{expected.mean:.3f}{interval}."
    yield from _failed(found)
    yield from _screen(found.screen)
    yield from _verdict(found, winner.setting)


def _verdict(found: SearchResult, winner: str) -> Iterator[str]:
    verdict = found.verdict
    if verdict is None:
        yield f"No setting scored higher than {found.baseline}, the config as it is."
        yield "Next: search along other axes, or keep the config."
        return
    corrected = "" if found.held_out else f", corrected for {counted(found.compared_with, 'comparison')}"
    change = "" if verdict.difference is None else f" ({verdict.difference:+.3f}"
    if verdict.ci is not None:
        change += f", 95% interval {verdict.ci[0]:+.3f} to {verdict.ci[1]:+.3f}{corrected}"
    change += ")" if change else ""
    if verdict.verdict == "better":
        yield f"It is better than {found.baseline} with the current labels{change}."
        near = [one.setting for one in found.finalists if one.setting != winner and _is_open(found, one.setting)]
        if near:
            yield f"Inconclusive against it: {listed(near)}."
        yield "Next: run the winner's config, winner.yaml of the report, and look at the questions that it loses."
        return
    if verdict.verdict in ("worse", "worse within the margin"):
        yield f"It is worse than {found.baseline} with the current labels{change}; it came first by chance."
        yield "Next: keep the config as it is."
        return
    yield f"No difference from {found.baseline} is shown{change}."
    if (more := labels_to_settle(verdict)) is not None:
        yield f"Next: label about {counted(more, 'more question')} to settle the two, or keep the config as it is."
    elif verdict.verdict == "no worse":
        yield "Next: keep the config as it is, or take the winner if it is cheaper."
    else:
        yield "Next: keep the config as it is."


def _failed(found: SearchResult) -> Iterator[str]:
    if found.failed:
        tried = counted(len({trial.setting for trial in found.trials} | set(found.failed)), "setting")
        yield f"{len(found.failed)} of {tried} failed, and {_have(found.failed)} no score: {listed(found.failed, 5)}."


def _have(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _screen(screen: ScreenPart | None) -> Iterator[str]:
    if screen is None or screen.difference is None:
        return
    agreement = "" if screen.tau is None else f" Their order agrees by Kendall's tau {screen.tau:.2f}."
    yield (
        f"Screened on {screen.documents:,} of {screen.of:,} documents; {counted(len(screen.settings), 'setting')} ran "
        f"on all.{agreement} Scores on the screen differ by {screen.difference:+.3f} on average "
        f"({screen.lowest:+.3f} to {screen.highest:+.3f})."
    )


def _is_open(found: SearchResult, name: str) -> bool:
    """Whether a finalist is not shown to be worse than the winner."""
    winner = found.winner.setting if found.winner else ""
    for part in found.between_finalists:
        if {part.setting, part.baseline} == {winner, name}:
            return part.verdict not in ("better", "worse")
    return True
