"""The docstrings below fields describe them in schemas, as pydantic would read them at import."""

from collections.abc import Iterator

import pytest
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

from ragtrial.experiment import run_experiment  # noqa: F401 - what a run imports has all models
from ragtrial.options import Described, field_docstrings


def models(one: type[Described] = Described) -> Iterator[type[Described]]:
    for below in one.__subclasses__():
        yield below
        yield from models(below)


OURS = sorted({one for one in models() if one.__module__.startswith("ragtrial.")}, key=lambda one: one.__qualname__)


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__qualname__)
def test_each_field_has_the_docstring_that_pydantic_finds(model: type[Described]) -> None:
    own = extract_docstrings_from_cls(model, use_inspect=True)
    declared = {name: text for name, text in own.items() if name in model.model_fields}
    found = field_docstrings(model)
    assert {name: found.get(name) for name in declared} == declared
    described = model.model_json_schema()["properties"] if model.model_fields else {}
    for name, text in found.items():
        key = model.model_fields[name].alias or name
        assert described[key]["description"] == (model.model_fields[name].description or text)
