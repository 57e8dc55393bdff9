"""Hypothesis strategies for rankings, labels and metrics."""

from functools import cache

from hypothesis import strategies as st

from ragtrial.evaluation.metrics import METRICS, Metric
from ragtrial.evaluation.metrics.base import Definition, MetricParameter, Value
from scenarios import SCALE, Scenario

DOCUMENTS = tuple(f"d{number}" for number in range(12))
UNRETRIEVABLE = ("elsewhere-1", "elsewhere-2")
"""Documents that labels name and no ranking holds."""

GRADES = st.integers(-2, 4)

cutoffs = st.integers(1, 15)

_either = st.booleans()
_orders = st.permutations(DOCUMENTS)
_some_names = st.lists(st.sampled_from(DOCUMENTS + UNRETRIEVABLE), unique=True)
"""Made once: a strategy that is made anew for each example is also checked anew."""


@cache
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@st.composite
def rankings(draw: st.DrawFn, least: int = 0) -> tuple[str, ...]:
    """Distinct documents in any order, perhaps none."""
    return tuple(draw(_orders)[: draw(_integers(least, len(DOCUMENTS)))])


_rankings = rankings()


@st.composite
def labels(draw: st.DrawFn, grades: st.SearchStrategy[int] = GRADES) -> dict[str, int]:
    """Grades of some documents in any order, perhaps of none, perhaps of documents that nothing retrieves."""
    return {name: draw(grades) for name in draw(_some_names)}


_labels = labels()


@st.composite
def scenarios(
    draw: st.DrawFn,
    grades: st.SearchStrategy[int] = GRADES,
    least_queries: int = 0,
    most_queries: int = 5,
    ordered: st.SearchStrategy[bool] | None = None,
) -> Scenario:
    """Rankings of unequal length and labels of any kind, query by query."""
    queries = draw(_integers(least_queries, most_queries))
    known = labels(grades)
    ordered = st.booleans() if ordered is None else ordered
    return Scenario(
        tuple(draw(_rankings) for _ in range(queries)),
        tuple(draw(known) for _ in range(queries)),
        tuple(draw(ordered) for _ in range(queries)),
    )


@st.composite
def promotions(draw: st.DrawFn) -> tuple[Scenario, Scenario]:
    """One query before and after two of its hits change places, the one with the higher gain moving up."""
    ranking = list(draw(rankings(least=2)))
    upper = draw(_integers(0, len(ranking) - 2))
    lower = draw(_integers(upper + 1, len(ranking) - 1))
    worse = draw(_integers(-2, 3))
    better = draw(_integers(max(worse, 0) + 1, 4))
    known = {**draw(_labels), ranking[upper]: worse, ranking[lower]: better}
    before = Scenario((tuple(ranking),), (known,), (True,))
    ranking[upper], ranking[lower] = ranking[lower], ranking[upper]
    return before, Scenario((tuple(ranking),), (known,), (True,))


@st.composite
def falling_labels(draw: st.DrawFn) -> dict[str, int]:
    """Relevant documents whose grades fall strictly in label order, with documents of grade 0 among them."""
    names = draw(st.lists(st.sampled_from(DOCUMENTS + UNRETRIEVABLE), min_size=1, unique=True))
    known = {name: draw(st.sampled_from((0, len(names) - place))) for place, name in enumerate(names)}
    return known if any(known.values()) else {**known, names[-1]: 1}


@cache
def values_of(parameter: MetricParameter) -> st.SearchStrategy[Value | None]:
    """Anything a parameter may be; its default, which may be None, is among it."""
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    if parameter.low == parameter.high:
        return st.booleans()
    if parameter.whole:
        # Low numbers, where the grades are, and now and then any other.
        low, high = int(parameter.low), int(parameter.high)
        return st.just(parameter.default) | st.integers(low, min(low + 4, high)) | st.integers(low, high)
    return st.floats(parameter.low, parameter.high, exclude_min=True, exclude_max=True, allow_subnormal=False)


@st.composite
def parameters_of(draw: st.DrawFn, definition: Definition) -> tuple[tuple[str, Value], ...]:
    """A value for each parameter of a metric, anywhere in its range."""
    drawn = {name: draw(values_of(parameter)) for name, parameter in definition.parameters.items() if name != "max"}
    if "max" in definition.parameters:
        drawn["max"] = draw(_integers(5, SCALE))  # no grade is higher
    return tuple((name, value) for name, value in drawn.items() if value is not None)


_no_gains: st.SearchStrategy[tuple[tuple[int, float], ...]] = st.just(())
_some_gains = st.dictionaries(st.integers(0, 5), st.floats(0, 50, allow_subnormal=False), max_size=3).map(
    lambda gains: tuple(sorted(gains.items()))
)


def gains_for(definition: Definition) -> st.SearchStrategy[tuple[tuple[int, float], ...]]:
    """Gains of some grades, in no order, where a metric takes any."""
    return _some_gains if definition.gains else _no_gains


@st.composite
def one_of_each_metric(draw: st.DrawFn, k: st.SearchStrategy[int] = cutoffs) -> list[Metric]:
    """Every registered metric, with any parameters, all at one cutoff (those that have none without)."""
    cutoff = draw(k)
    return [
        Metric(
            name, None if definition.cut == "none" else cutoff, draw(parameters_of(definition)),
            draw(gains_for(definition)),
        )
        for name, definition in METRICS.members()
        if definition.documents
    ]  # fmt: skip


@st.composite
def metric_called(draw: st.DrawFn, name: str, k: st.SearchStrategy[int] = cutoffs) -> Metric:
    """A metric with any parameters and gains, with any cutoff or none, as far as it can have them."""
    definition = METRICS[name]
    cut = None if definition.cut == "none" or (definition.cut == "optional" and draw(_either)) else draw(k)
    return Metric(name, cut, draw(parameters_of(definition)), draw(gains_for(definition)))


@st.composite
def chunk_rows(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """The owner of each chunk, and rows of chunks in any order, with repetitions, perhaps empty."""
    owner = draw(st.lists(st.integers(0, 6), min_size=1, max_size=15))
    return owner, draw(st.lists(st.lists(st.integers(0, len(owner) - 1), max_size=12), max_size=5))
