"""Sweeps as they are in configs, for tests."""

from pathlib import Path
from textwrap import indent
from typing import Any

from hypothesis import strategies as st

from ragtrial.config.models import ExperimentConfig
from ragtrial.config.strict_yaml import YamlText, parse_yaml
from ragtrial.config.sweep import Combination, SweepOptions, combinations
from ragtrial.config.variants import variants_of
from ragtrial.errors import ConfigError, Fault
from ragtrial.options import Options, validate

BASE = """\
experiment: first
dataset: {corpus: corpus.jsonl, queries: labels.json}
chunker: {kind: recursive, size: 200, overlap: 40}
embedder: {kind: sentence-transformer, model: tiny}
retrievers:
  dense: {kind: dense, top_k: 10}
  whole: {kind: dense, chunker: {kind: document}}
sweep:
"""
LINES = BASE.count("\n")
"""Lines above the sweep's first."""

FOLDER = Path("/where/the/config/is")
SIZE, OVERLAP, TOP_K, MODEL = "chunker.size", "chunker.overlap", "retrievers.dense.top_k", "embedder.model"


class Swept(Options):
    """A config of nothing but its sweep, so that faults have the places they have in one."""

    sweep: SweepOptions


def written(sweep: str, base: str = BASE, **environment: str) -> YamlText:
    """The content of a config with the text of ``sweep`` in it."""
    return parse_yaml(base + indent(sweep.strip("\n"), "  ") + "\n", "config.yaml", FOLDER, environment)


def read(content: YamlText) -> SweepOptions:
    return validate(Swept, {"sweep": content.value["sweep"]}, ConfigError, content.fault_at).sweep


def sweep_of(**options: Any) -> SweepOptions:
    return SweepOptions.model_validate(options)


def combined(sweep: SweepOptions) -> list[Combination]:
    """The combinations of a sweep that is right."""
    found, faults = combinations(sweep)
    assert faults == []
    return found


def faults_of(sweep: str, base: str = BASE, **environment: str) -> list[str]:
    """What is wrong with the text of a sweep: line (1 is that below ``sweep:``), column and message."""
    content = written(sweep, base, **environment)
    faults: list[Fault] = []
    try:
        variants_of(ExperimentConfig.of(content, "config.yaml"))
    except ConfigError as error:
        faults += error.faults
    assert all(fault.file == "config.yaml" for fault in faults)
    return [f"{fault.line - base.count(chr(10))}:{fault.column}: {fault.message}" for fault in faults]


numbers = st.integers(1, 10**6)
words = st.text("abcdefgh./-_ ", min_size=1, max_size=12)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.floats(-5, 5).map(lambda x: round(x, 3)), words)
mappings = st.fixed_dictionaries(
    {"kind": st.sampled_from(["fixed", "recursive"])}, optional={"size": numbers, "unit": words, "keep": st.booleans()}
)
values = st.one_of(scalars, st.lists(scalars, max_size=3), mappings)
"""Whatever an axis may take, as YAML gives it."""
