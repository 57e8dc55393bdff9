"""Methods of search: each setting once, within the budget, and better than chance where scores say so."""

from dataclasses import replace

import pytest

from ragtrial.config.settings import Setting
from ragtrial.config.sweep import METHODS
from ragtrial.search.search_run import Measured, SearchRun, Trial
from searches import CONFIG, QUERIES, Recorded, run_of


def searched(
    method: str, engine: Recorded, settings: int = 20, more: str = "", minutes: float | None = None
) -> SearchRun:
    run = run_of(f"{{method: {method}, settings: {settings}, held_out: 0.3{more}}}", engine, minutes)
    METHODS[run.options.method].search(run)
    return run


def best(run: SearchRun) -> Trial:
    return max(run.trials, key=lambda trial: trial.score)


@pytest.mark.parametrize("method", METHODS.names())
def test_no_setting_is_run_twice_and_the_same_seed_goes_on(method: str) -> None:
    engine = Recorded()
    run = searched(method, engine)
    assert len(engine.run) == len(set(engine.run))
    tried = set(engine.run) - {"bm25", "dense"}
    assert 3 < len(tried) <= 20
    assert run.options.settings - run.unused == len(tried)
    first, again = Recorded(), Recorded()
    searched(method, first)
    searched(method, again)
    assert first.run == again.run


@pytest.mark.parametrize("method", METHODS.names())
def test_failing_and_too_dear_settings_are_never_the_best(method: str) -> None:
    run = searched(method, Recorded())
    assert run.failed
    assert not any(trial.setting.values.get("retrievers.bm25.b") == 1.0 for trial in run.trials)
    # Costs are the scores here, so the limit is one of the score.
    run = searched(method, Recorded({"index_bytes": 1.0}), more=", within: {index_bytes: 0.6}")
    assert best(run).mean <= 0.6
    assert any(not trial.is_within for trial in run.trials)
    one, other = Recorded(), WithOtherHeldOut()
    means = [trial.mean for trial in searched(method, one).trials]
    assert [trial.mean for trial in searched(method, other).trials] == means
    assert one.run == other.run


@pytest.mark.parametrize("method", [name for name, method in METHODS.members() if method.is_adaptive])
def test_a_method_that_looks_at_scores_finds_a_good_setting(method: str) -> None:
    assert best(searched(method, Recorded(), 30)).mean > 0.65  # the highest is 0.7, that of the config 0.595


@pytest.mark.parametrize("method", METHODS.names())
def test_no_setting_is_begun_after_the_minutes_or_the_calls(method: str) -> None:
    engine = Recorded()
    run = searched(method, engine, more=", minutes: 10", minutes=1.0)
    assert len(engine.run) < 12
    assert run.ended == "the limit search.minutes was reached; the same command continues"
    # Each setting takes 100 requests here; the two of the config come first, and count.
    engine = Recorded()
    run = run_of(
        f"{{method: {method}, settings: 20, held_out: 0.3, calls: 500}}", engine, calls=lambda: 100 * len(engine.run)
    )
    METHODS[run.options.method].search(run)
    assert len(engine.run) == 5
    assert run.ended == "the limit search.calls was reached; the same command continues"


def test_random_search_draws_before_it_sees_a_score_or_tries_all() -> None:
    """So tests on the same queries stay valid."""
    one, other = Recorded(), Recorded({"index_bytes": 1.0})
    searched("random", one)
    run = run_of("{settings: 20, within: {index_bytes: 0.0}}", other)
    METHODS["random"].search(run)
    assert one.run == other.run
    assert [searched("random", Recorded(), count).unused for count in (2, 3)] == [0, 0]
    # 3 sizes of dense, and 3 sizes by 3 values of b for bm25; one of each is the config as it is.
    text = CONFIG.replace("{between: [0.5, 2.0]}", "[1.2]")
    engine = Recorded()
    run = run_of("{settings: 100}", engine, text=text)
    METHODS["random"].search(run)
    assert run.space.size == 12
    assert len({trial.setting.key for trial in run.trials} | {one.key for one in run.failed}) == 13
    assert run.ended == "no other setting is left to try"
    run = run_of("{settings: 5, within: {index_bytes: 100}}", Recorded({"index_bytes": None}))
    METHODS["random"].search(run)
    assert not any(trial.is_within for trial in run.trials)


class WithOtherHeldOut(Recorded):
    """Held-out queries score the other way round."""

    def measured(self, setting: Setting) -> Measured | None:
        found = super().measured(setting)
        if found is None:
            return None
        held_out = {query: 1 - found.scores[query] for query in QUERIES[40:] if query in found.scores}
        return replace(found, scores={**found.scores, **held_out})
