"""JSON Schemas of configs are valid and say what the loaders say; each key has its reference and its description."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

from ragtrial.components.chunkers.base import CHUNKERS
from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.interfaces import RETRIEVERS
from ragtrial.components.refiners.base import REFINERS
from ragtrial.config import load_config
from ragtrial.config.reference import config_names, config_schema, config_sections, labels_schema, look_up
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.engines import COLLECTIONS, STORES
from ragtrial.errors import InputError
from ragtrial.experiment import run_experiment  # noqa: F401 - what a run imports has all models
from ragtrial.options import Described, field_docstrings
from ragtrial.report.model import report_schema
from small_experiment import CONFIG, LABELS, ragtrial, small_experiment

SCHEMAS = {"config": cache(config_schema), "labels": cache(labels_schema), "report": cache(report_schema)}
CONFIGS = sorted(path.name for path in (Path(__file__).parents[3] / "configs").glob("*.yaml"))


def faults(schema: dict[str, Any], value: object) -> list[str]:
    """Where ``value`` is not as ``schema`` says, as an editor would tell."""
    found = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return sorted(error.json_path for error in found)


def config_faults(text: str) -> list[str]:
    return faults(SCHEMAS["config"](), yaml.safe_load(text))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_what_commands_print(name: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = SCHEMAS[name]()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    shipped = root / "schemas" / f"{name}.schema.json"
    printed = ragtrial(capsys, "schema", name)
    assert printed.code == 0
    assert shipped.read_text(encoding="utf-8") == printed.out, (
        f"{shipped.name} is out of date; regenerate it: ragtrial schema {name} -o schemas/{name}.schema.json"
    )


@pytest.mark.parametrize("name", ["config", "labels"])
def test_every_key_of_a_schema_that_people_write_has_a_description(name: str) -> None:
    schema = SCHEMAS[name]()
    bare = [
        f"{title}.{key}"
        for title, part in {"": schema, **schema["$defs"]}.items()
        for key, value in part.get("properties", {}).items()
        if not value.get("description") and "$ref" not in value
    ]
    assert bare == []
    assert all(part["description"] for part in schema["$defs"].values() if part)  # an empty one is any JSON value


@pytest.mark.parametrize("name", CONFIGS)
def test_a_shipped_config_fits_the_schema_and_names_it(name: str, root: Path) -> None:
    text = (root / "configs" / name).read_text(encoding="utf-8")
    assert config_faults(text) == []
    modeline = text.partition("\n")[0].removeprefix("# yaml-language-server: $schema=")
    assert (root / "configs" / modeline).resolve() == root / "schemas" / "config.schema.json"


WRONG = ["sead: 1", "seed: x", "seed: 1.5", "workspace: 3", "evaluators: {unit: spam}", "output: {dir: x}",
         "evaluators: {graded: {k: [0]}}", "evaluators: {graded: {cut: 3}}"]  # fmt: skip
PARTS = [("top_k: 3", "top_k: 0"), ("top_k: 3", "topk: 3"), ("  dense:", "  a b:"), ("{kind: exact}", "{kind: exakt}"),
         ("{kind: exact}", "exact"), ("experiment: small\n", ""), ("experiment: small", "experiment: a/b")]  # fmt: skip


@pytest.mark.parametrize("text", [*(f"{CONFIG}{line}\n" for line in WRONG), *(CONFIG.replace(*part) for part in PARTS)])
def test_what_the_loader_refuses_the_schema_marks(text: str, tmp_path: Path) -> None:
    assert config_faults(CONFIG) == []
    assert config_faults(text) != []
    with pytest.raises(InputError):
        load_config(small_experiment(tmp_path, config=text))


def test_the_schema_lets_a_config_with_a_base_leave_out_what_the_base_has(tmp_path: Path) -> None:
    small_experiment(tmp_path)
    for text in ("extends: experiment.yaml\nseed: 3\n", "extends: [experiment.yaml]\nlatency: true\n"):
        (tmp_path / "other.yaml").write_text(text, encoding="utf-8")
        assert config_faults(text) == []
        assert load_config(tmp_path / "other.yaml").experiment == "small"


@pytest.mark.parametrize("key", ["seed", "latency"])
def test_the_schema_lets_a_number_come_from_a_variable_and_no_other_text(key: str, tmp_path: Path) -> None:
    base = CONFIG.replace("latency: false\n", "")
    text = f"{base}{key}: ${{NOT_SET:-{'7' if key == 'seed' else 'true'}}}\n"
    assert config_faults(text) == []
    load_config(small_experiment(tmp_path, config=text))
    assert config_faults(f"{base}{key}: seven\n") == [f"$.{key}"]


@pytest.mark.parametrize(
    "query",
    [{"id": "q", "text": "x", "relevant_docs": [{"doc": "a", "grade": 1}]}, {"id": "q", "text": "x"},
     {"id": 1.5, "text": "x", "relevant_docs": []}, {"id": "q", "text": 3, "relevant_docs": []},
     {"id": "q", "text": "x", "relevant_docs": [{"doc": "a", "relevance": "2"}]}],
)  # fmt: skip
def test_labels_that_the_loader_refuses_the_schema_marks(query: object, tmp_path: Path) -> None:
    assert faults(SCHEMAS["labels"](), LABELS) == []
    labels = {"queries": [query]}
    assert faults(SCHEMAS["labels"](), labels) != []
    small_experiment(tmp_path, labels=labels)
    with pytest.raises(InputError):
        load_prompt_queries(tmp_path / "prompt_queries.json")


Capture = pytest.CaptureFixture[str]


def test_every_kind_has_a_section_and_every_name_is_found() -> None:
    families = (CHUNKERS, EMBEDDERS, STORES, COLLECTIONS, RETRIEVERS, REFINERS)
    kinds = {name for family in families for name in family.names()}
    assert {section.kind for section in config_sections()} - {""} >= kinds  # parts of stores have kinds, too
    assert [name for name in config_names() if not look_up(name)] == []
    assert [section.kind for section in look_up("retrievers.dense.score")] == [
        "bm25, custom, dense, late, run_file, sparse, expand, fusion, late_rerank, mmr, parent, rerank"
    ]


@pytest.mark.parametrize(("name", "value", "default"), [
    ("chunker.size", "whole number, at least 1", "200"),
    ("chunker.separators", "list of: text", '["\\n\\n", "\\n", ". ", " ", ""]'),
    ("retrievers.dense.chunker.overlap", "whole number, at least 0", "40"),
    ("retrievers.words.b", "number, at least 0, at most 1", "0.75"),
    ("bm25.stop_words", "text or list of: text", "english"),
    ("evaluators.span_coverage", "number, above 0, at most 1", "0.5"),
    ("store.space", "`cosine` or `ip` or `l2`", "cosine"),
    ("store.hnsw.max_neighbors", "whole number, at least 2", "16"),
    ("experiment", "text", "required"),
    ("latency", "true or false", ""),
    ("chunker", "mapping", "{kind: recursive}"),
])  # fmt: skip
def test_a_key_has_the_value_and_the_default_of_the_model(name: str, value: str, default: str) -> None:
    last = name.rpartition(".")[2]
    sections = config_sections() if name == last else look_up(name)
    key = next(key for section in sections for key in section.keys if key.name == last)
    assert (key.value, key.default) == (value, default)


def test_explain_knows_keys_kinds_and_places_with_several(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    made = ragtrial(capsys, "explain", "embedder.query_prefix")
    assert (made.code, made.err) == (0, "")
    head = "embedder (kind sentence-transformer)\n"
    assert f"{head}  query_prefix: text\n      Text to put before every query (" in made.out
    assert max(len(line) for line in made.out.splitlines()) <= 70
    kind = ragtrial(capsys, "explain", "recursive").out
    assert all(f"  {key.name}: " in kind for key in look_up("recursive")[0].keys)
    assert "\n  match: id or content; default id\n" in ragtrial(capsys, "explain", "dataset").out
    shown = ragtrial(capsys, "explain", "store").out
    assert [line for line in shown.splitlines() if not line.startswith(" ")] == [
        *(f"store (kind {kind})" for kind in STORES.names()),
        "The keys of a kind: ragtrial explain chroma",
    ]


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
