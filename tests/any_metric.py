"""A Hypothesis strategy for one metric, with whatever it can be given."""

from __future__ import annotations

from hypothesis import strategies as st

from ragtrial.metrics import METRICS, Metric
from ragtrial.metrics.base import Parameter, Value
from strategies import cutoffs


@st.composite
def metric_called(draw: st.DrawFn, name: str, k: st.SearchStrategy[int] = cutoffs) -> Metric:
    """A metric with any parameters and gains, with any cutoff or none, as far as it can have them."""
    definition = METRICS[name]
    cut = None if definition.cut == "none" or (definition.cut == "optional" and draw(st.booleans())) else draw(k)
    given = {name: draw(values_of(parameter)) for name, parameter in definition.parameters.items()}
    gains = draw(st.dictionaries(st.integers(0, 3), st.integers(0, 9).map(float))) if definition.gains else {}
    known = tuple((name, value) for name, value in given.items() if value is not None)
    return Metric(name, cut, known, tuple(sorted(gains.items())))


def values_of(parameter: Parameter) -> st.SearchStrategy[Value | None]:
    """What a parameter may be, whole numbers from the low end of their range."""
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    if parameter.low == parameter.high:
        return st.booleans()
    if parameter.whole:
        low = int(parameter.low)
        return st.just(parameter.default) | st.integers(low, min(low + 4, int(parameter.high)))
    return st.floats(parameter.low, parameter.high, exclude_min=True, exclude_max=True, allow_subnormal=False)
