"""The plan of work: what it says is to do is what a run then makes, and why; and nothing is made to say it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from expectations import present
from experiments import Experiment, edit, python, write_experiment
from ragtrial.config.settings import settings_of
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.corpus_stages import estimated_chunks
from ragtrial.pipeline.dry_run import DryRun
from ragtrial.pipeline.run import Run
from ragtrial.report.schema import ContextPart, CostsPart, LatencyPart, QueryColumns, SettingPart
from ragtrial.views.dry_run_lines import plan_lines
from ragtrial.views.report_tables import cost_table

pytestmark = pytest.mark.slow

FOLDERS = ("documents", "chunks", "contexts", "lengths", "embeddings", "indexes", "rankings", "latency", "use",
           "shares")  # fmt: skip
TREE = {
    "dense": {"kind": "dense", "top_k": 3, "store": {"kind": "chroma"}},
    "exact": {"kind": "dense", "top_k": 3},
    "bm25": {"kind": "bm25", "top_k": 3, "score": False},
    "hybrid": {"kind": "fusion", "inputs": ["dense", "bm25"], "top_k": 3, "candidates": 5},
    "twice": {"kind": "fusion", "inputs": ["hybrid", "exact"], "top_k": 3, "candidates": 4},
}


def plan_of(experiment: Experiment, *overrides: str) -> DryRun:
    return Run.of(experiment.config(*overrides)).dry_run()


def stages(experiment: Experiment) -> set[tuple[str, str]]:
    return {(kind, path.name) for kind in FOLDERS for path in (experiment.workspace / kind).glob("[!.]*")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = write_experiment(tmp_path_factory.mktemp("plan") / "first", retrievers=TREE, latency=True)
    run_experiment(experiment.config())
    return experiment


@pytest.fixture
def experiment(finished: Experiment, tmp_path: Path) -> Experiment:
    return Experiment(shutil.copytree(finished.folder, tmp_path / "copy"))


def nothing(_: Experiment) -> None:
    pass


def remove(kind: str, what: str = "") -> Callable[[Experiment], None]:
    """Remove the stages of a kind whose seal has these words."""

    def change(experiment: Experiment) -> None:
        found = [
            path for path in (experiment.workspace / kind).glob("[!.]*") if what in (path / "stage.json").read_text()
        ]
        assert found
        for path in found:
            shutil.rmtree(path)

    return change


def rename_function(experiment: Experiment) -> None:
    edit("embedding.py", "def embed(", "def vectors_of(")(experiment)
    edit("config.yaml", "embedding:embed", "embedding:vectors_of")(experiment)


def cut_short(kind: str, name: str) -> Callable[[Experiment], None]:
    def change(experiment: Experiment) -> None:
        file = next((experiment.workspace / kind).glob(f"[!.]*/{name}"))
        file.write_bytes(file.read_bytes()[:-1])

    return change


@pytest.mark.parametrize(("change", "overrides", "to_do", "why"), [
    (nothing, (), set(), ""),
    (nothing, ("retrievers.dense.top_k=2",), {"latency", "audit"}, "top_k changed"),
    (nothing, ("retrievers.dense.top_k=6",), {"rankings", "latency", "audit"},
     "retrievers.dense.top_k changed from 3 to 6"),
    (nothing, ("retrievers.hybrid.candidates=9",), {"rankings", "latency"},
     "hits looked at changed"),
    (nothing, ("retrievers.bm25.k1=1.5",), {"rankings", "latency"},
     "retrievers.bm25.k1 changed from 1.2 to 1.5"),
    (nothing, ("chunker.size=120",), {"chunks", "embeddings", "index", "rankings", "latency", "audit"},
     "chunker.size changed from 90 to 120"),
    (nothing, ("chunker.size=120", "experiment=other"),
     {"chunks", "embeddings", "index", "rankings", "latency", "audit"}, "not made before"),
    (nothing, ("context.headings=true",), {"context", "embeddings", "index", "rankings", "latency", "audit"},
     "not made before"),
    (nothing, ("embedder.normalize=false", "embedder.batch_size=7"),
     {"embeddings", "index", "rankings", "latency", "audit"}, "embedder.normalize changed from true to false"),
    (nothing, ('embedder.query_prefix="q: "',), {"rankings", "latency", "audit"},
     'embedder.query_prefix changed from "" to "q: "'),
    (nothing, ("retrievers.dense.store.hnsw.ef_search=99",), {"index", "rankings", "latency", "audit"},
     "store.hnsw.ef_search changed from 100 to 99"),
    (edit("documents/oven.txt", "Leave", "Keep"), (),
     {"chunks", "embeddings", "index", "rankings", "latency", "audit"}, "documents changed"),
    (edit("prompt_queries.json", "grow coffee", "grow tea"), (), {"rankings", "latency", "audit"},
     "questions changed"),
    (edit("embedding.py", "% 32", "% 31"), (), {"embeddings", "index", "rankings", "latency", "audit"},
     "embedder files changed"),
    (rename_function, (), {"embeddings", "index", "rankings", "latency", "audit"},
     'embedder.function changed from "embedding:embed" to "embedding:vectors_of"'),
    (remove("lengths"), (), {"embeddings"}, "an earlier run asked for it; it is gone, or was not finished"),
    (remove("chunks"), (), {"chunks"}, "an earlier run asked for it; it is gone, or was not finished"),
    (remove("indexes", "exact"), (), {"index"},
     "an earlier run asked for it; it is gone, or was not finished"),
    (remove("indexes", "chroma"), (), {"index", "rankings", "latency", "audit"},
     "an earlier run asked for it; it is gone, or was not finished"),
    (remove("rankings", "rankings of bm25"), (), set(), ""),
    (cut_short("embeddings", "vectors.npy"), (), {"embeddings"}, "damaged: vectors.npy has "),
    (cut_short("indexes", "*/data_level0.bin"), (), {"index", "rankings", "latency", "audit"}, "damaged: "),
])  # fmt: skip
def test_what_is_to_do_is_what_the_run_makes(
    experiment: Experiment, change: Callable[[Experiment], None], overrides: tuple[str, ...], to_do: set[str], why: str
) -> None:
    change(experiment)
    plan = plan_of(experiment, *overrides)
    assert {node.kind for node in plan.to_do} == to_do
    reasons = {(node.kind, node.what): node.why for node in plan.to_do}
    assert not why or any(reason.startswith(why) for reason in reasons.values()), reasons
    # The size of batches changes nothing that is made: a plan does not count it.
    assert not [node.why for node in plan.to_do if "normalize changed" in node.why and "more" in node.why]
    before = stages(experiment)
    missing = {stage for node in plan.stages for stage in node.missing}
    damaged = {stage for stage in missing if stage in before}
    ids = {stage: (experiment.workspace.joinpath(*stage) / "stage.json").read_bytes() for stage in damaged}
    run_experiment(experiment.config(*overrides))
    made = stages(experiment) - before
    for folder, name in missing - damaged:
        assert (folder, name) in made if name else folder in {kind for kind, _ in made}
    assert {stage for stage in made if stage not in missing and (stage[0], None) not in missing} == set()
    assert all((experiment.workspace.joinpath(*stage) / "stage.json").read_bytes() != ids[stage] for stage in ids)
    after = plan_of(experiment, *overrides)
    assert (after.to_do, after.fingerprint) == ([], plan.fingerprint)


def test_a_plan_makes_nothing_but_the_documents_and_loads_no_model(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, retrievers=TREE, latency=True, context={"headings": True})
    assert {node.kind for node in plan_of(experiment).to_do} == {
        "chunks", "context", "embeddings", "index", "rankings", "latency", "audit",
    }  # fmt: skip
    assert {kind for kind, _ in stages(experiment)} == {"documents"}
    assert experiment.embedded() == []
    assert not list((experiment.workspace / "vectors").glob("*"))
    changes = [(), ("embedder.batch_size=7",), ("embedder.normalize=false",), ("retrievers.exact.top_k=4",)]
    prints = [plan_of(experiment, *change).fingerprint for change in changes]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_a_plan_imports_neither_torch_nor_chroma(experiment: Experiment) -> None:
    code = (
        "import sys; from ragtrial.__main__ import main\nsys.argv = ['ragtrial', 'plan', sys.argv[1], '-q']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print(sorted({'torch', 'chromadb', 'sentence_transformers', 'transformers'} & set(sys.modules)))"
    )
    said = python(code, experiment.file)
    assert said.stdout.splitlines()[-1] == "[]", said.stderr


def test_as_many_rankings_are_planned_as_a_run_makes(tmp_path: Path) -> None:
    """Those of a part that is asked other wordings are others; those in batches of another size are not."""
    batches = {"kind": "custom", "function": "embedding:embed", "batch_size": 2}
    retrievers = {
        "bm25": {"kind": "bm25", "top_k": 3},
        "worded": {"kind": "expand", "inputs": "bm25", "templates": ["{query} oven"], "top_k": 3},
        "dense": {"kind": "dense", "top_k": 3},
        "batches": {"kind": "dense", "top_k": 3, "embedder": batches},
    }
    experiment = write_experiment(tmp_path, retrievers=retrievers)
    planned = [node for node in plan_of(experiment).to_do if node.kind == "rankings"]
    assert [(node.what, node.amount.to_do, node.settings) for node in planned] == [
        ("bm25 (bm25)", 4, ("bm25",)),
        ("bm25 (bm25)", 8, ("worded",)),
        ("worded (expand)", 4, ("worded",)),
        ("dense (dense)", 4, ("dense", "batches")),
    ]
    run_experiment(experiment.config())
    assert len([stage for stage in stages(experiment) if stage[0] == "rankings"]) == len(planned)


def test_cached_texts_are_not_to_do_and_a_text_of_two_stages_once(finished: Experiment, tmp_path: Path) -> None:
    (known,) = (node for node in plan_of(finished).stages if node.kind == "embeddings")
    assert (known.amount.count, known.amount.to_do, known.amount.is_estimate) == (16, 0, False)
    experiment = Experiment(shutil.copytree(finished.folder, tmp_path / "copy"))
    remove("embeddings")(experiment)
    (cached,) = (node for node in plan_of(experiment).stages if node.kind == "embeddings")
    assert (cached.is_cached, cached.amount.count, cached.amount.to_do, cached.amount.seconds) == (False, 16, 0, 0.0)
    shutil.rmtree(experiment.workspace / "vectors")
    other = "retrievers.other={kind: dense, top_k: 3, context: {title: false}, chunker: {kind: document}}"
    first, second = (node for node in plan_of(experiment, other).stages if node.kind == "embeddings")
    assert (first.amount.to_do, second.amount.is_estimate) == (16, True)


def test_the_command_prints_a_line_a_piece_of_work(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(experiment, "chunker.size=120")
    lines = plan_lines(plan, 80)
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.startswith(" ")] == ["        chunker.size changed from 90 to 120"]
    assert len(lines) == len(plan.stages) + 1
    assert [line.split()[0] for line in lines if not line.startswith(" ")][:2] == ["cached", "to"]
    assert len(plan_lines(plan, 160)) == len(plan.stages)
    assert not [line for line in lines if ".." in line], "reasons have lines of their own before anything is cut"
    assert "for dense, exact, hybrid, twice" in "\n".join(plan_lines(plan, 160, verbose=True))


@pytest.mark.parametrize(("overrides", "expected"), [
    (("chunker.size=100", "chunker.overlap=0"), 1 + 1 + 3),
    (("chunker.size=100", "chunker.overlap=50"), 1 + 2 + 6),
    (("chunker={kind: document}",), 3),
])  # fmt: skip
def test_chunks_are_estimated_from_bytes(finished: Experiment, overrides: tuple[str, ...], expected: int) -> None:
    setting = settings_of(finished.config(*overrides))[0][0]
    assert estimated_chunks(setting, np.array([0, 30, 100, 300])) == expected


def test_what_a_setting_takes_counts_what_its_parts_share_once(finished: Experiment) -> None:
    report = run_experiment(finished.config())
    costs = {setting.name: setting.costs for setting in report.settings}
    index = next((finished.workspace / "indexes").glob("*/chroma.sqlite3")).parent
    chroma = sum(size for size, _ in json.loads((index / "stage.json").read_text())["files"].values())
    (vectors,) = (finished.workspace / "embeddings").glob("*/stage.json")
    exact = sum(size for size, _ in json.loads(vectors.read_text())["files"].values())
    words = [*(finished.workspace / "terms").glob("*/stage.json"), *(finished.workspace / "bm25").glob("*/stage.json")]
    of_words = sum(size for file in words for size, _ in json.loads(file.read_text())["files"].values())
    assert of_words > 0
    found = {name: one.index_bytes if one else None for name, one in costs.items()}
    assert found == {
        "dense": chroma, "exact": exact, "hybrid": chroma + of_words, "twice": chroma + of_words + exact,
    }  # fmt: skip
    embedding = {one.embedding_seconds for one in costs.values() if one}
    assert len(embedding) == 1  # all of them have the same vectors
    built = json.loads((index / "stage.json").read_text())["seconds"]
    assert present(costs["dense"]).indexing_seconds == built
    more = sum(json.loads(file.read_text())["seconds"] for file in words)
    assert present(costs["hybrid"]).indexing_seconds == pytest.approx(built + more)


def part(name: str, costs: CostsPart | None, latency: LatencyPart | None, context: list[ContextPart]) -> SettingPart:
    return SettingPart(
        name=name, fingerprint="", parameters={}, scores={}, counts={}, index={}, health=None, audit=None, timings={},
        latency=latency, costs=costs, context=context,
        per_query=QueryColumns(evaluations={}, short=[], skipped=[], collapsed=[]),
    )  # fmt: skip


def test_the_table_of_costs_has_dashes_and_bytes_where_they_differ() -> None:
    latency = LatencyPart(p50=0.0012, p95=0.02, p99=None, n=9, machine="", date="")
    context = [ContextPart(k=1, characters=90, tokens=20), ContextPart(k=3, characters=9000, tokens=2000)]
    one = part("a", CostsPart(embedding_seconds=3.25, indexing_seconds=0.0, index_bytes=2_500_000), latency, context)
    two = part("b", None, None, [])
    assert cost_table([one, two]).cells == [
        ["costs", "tokens@3", "ms p50", "p95", "embed s", "index s", "index MB"],
        ["a", "2,000", "1.2", "20.0", "3.2", "0.0", "2.5"],
        ["b", "-", "-", "-", "-", "-", "-"],
    ]
    assert cost_table([two]).cells == []

    def costs(size: int | None) -> SettingPart:
        made = CostsPart(embedding_seconds=None, indexing_seconds=None, index_bytes=None, vector_bytes=size)
        return part("a", made, None, [])

    assert "B/vector" not in cost_table([costs(1_536), costs(1_536)]).titles
    table = cost_table([costs(1_536), costs(48), costs(None)])
    place = table.titles.index("B/vector")
    assert [row[place] for row in table.rows] == ["1,536", "48", "-"]
