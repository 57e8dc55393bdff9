"""Stages: what each depends on, that nothing finished is made again, and that nothing finished is lost."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from expectations import present
from experiments import DOCUMENTS, QUERIES, RUN, STAGES, Experiment, edit, python, write_experiment
from ragtrial.config.settings import Setting, settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import OnError
from ragtrial.dataset.library import Library
from ragtrial.errors import EmbedderError, ModelNotFoundError, RunError
from ragtrial.experiment import run_experiment, search_settings
from ragtrial.pipeline.corpus import Corpus, Graph
from ragtrial.pipeline.results import SettingResult
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.written_wordings import WrittenWordings
from ragtrial.progress import Silent
from ragtrial.records import Question
from ragtrial.report.model import Report, load_report
from ragtrial.report.schema import SettingPart

pytestmark = pytest.mark.slow

EVERYTHING = {"documents", "chunks", "lengths", "embeddings", "indexes", "rankings"}
"""What a setting with exact search has."""


def run(experiment: Experiment, *overrides: str) -> Report:
    return run_experiment(experiment.config(*overrides))


@dataclass(frozen=True)
class Made:
    """The stages of the first setting of an experiment, asked some queries, and what makes them."""

    corpus: Corpus
    graph: Graph
    setting: Setting

    def result(self) -> SettingResult:
        return self.graph.result(self.setting)

    def chunks(self) -> Chunks:
        chunks = self.corpus.chunks(self.setting)
        assert chunks is not None
        return chunks


def made_of(experiment: Experiment, queries: Sequence[str] = (), *overrides: str, latency: bool = False) -> Made:
    config = experiment.config(*overrides)
    corpus, settings = Corpus(config, Silent()), settings_of(config)[0]
    graph = Graph(corpus, settings, WrittenWordings(list(map(Question, queries))), latency=latency)
    return Made(corpus, graph, settings[0])


def rankings(experiment: Experiment, queries: Sequence[str], *overrides: str, latency: bool = False) -> SettingResult:
    return made_of(experiment, queries, *overrides, latency=latency).result()


def numbers(part: SettingPart) -> dict[str, Any]:
    """All that a setting found and scored, without how long that took."""
    return part.model_dump(exclude={"name", "timings", "costs", "latency", "index"})


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path / "first")


def move_the_corpus(experiment: Experiment) -> None:
    shutil.move(experiment.folder / "documents", experiment.folder / "moved")
    text = experiment.file.read_text()
    experiment.file.write_text(text.replace('"corpus": "documents"', '"corpus": "moved"'))


def touch_a_document(experiment: Experiment) -> None:
    file = experiment.folder / "documents" / "oven.txt"
    os.utime(file, (1, 1))
    file.chmod(0o600)


def config(old: str, new: str) -> Callable[[Experiment], None]:
    return edit("config.yaml", old, new)


def rename_a_document(experiment: Experiment) -> None:
    shutil.move(experiment.folder / "documents" / "oven.txt", experiment.folder / "documents" / "cleaning.txt")


CHANGES: dict[str, tuple[Callable[[Experiment], None], set[str]]] = {
    "batch size": (config('"batch_size": 4', '"batch_size": 3'), set()),
    "name of the setting": (config('"dense": {', '"other": {'), set()),
    "name of the experiment": (config('"kitchen"', '"pantry"'), set()),
    "folder of the reports": (config('"results"', '"reports"'), set()),
    "latency, seed": (config('"latency": false', '"seed": 9, "latency": true'), {"latency"}),
    "another metric and other k": (
        config(
            '"latency": false',
            '"latency": false, "evaluators": {"graded": {"k": [1, 2]}, "order_aware": {"metrics": ["rbp@2"]}}',
        ),
        set(),
    ),
    "place of the corpus": (move_the_corpus, set()),
    "a touched document of equal bytes": (touch_a_document, set()),
    "a grade": (edit("prompt_queries.json", '"relevance": 3', '"relevance": 1'), set()),
    "id of a query": (edit("prompt_queries.json", '"keep"', '"fridge"'), set()),
    "text of a query": (edit("prompt_queries.json", "grow coffee", "grow tea"), {"rankings"}),
    "top_k": (config('"top_k": 3', '"top_k": 4'), {"rankings"}),
    "prefix of queries": (config('"batch_size": 4', '"query_prefix": "q: "'), {"rankings"}),
    "space": (config('"exact"', '"exact", "space": "l2"'), {"indexes", "rankings"}),
    "kind of store": (config('"exact"', '"chroma"'), {"indexes", "rankings", "use"}),
    "prefix of documents": (
        config('"batch_size": 4', '"document_prefix": "d: "'),
        {"lengths", "embeddings", "indexes", "rankings"},
    ),
    "normalisation": (config('"batch_size": 4', '"normalize": false'), {"embeddings", "indexes", "rankings"}),
    "version of the model": (config('"batch_size": 4', '"version": "2"'), {"embeddings", "indexes", "rankings"}),
    "chunk size": (config('"size": 90', '"size": 91'), EVERYTHING - {"documents"}),
    "overlap": (config('"overlap": 0', '"overlap": 1'), EVERYTHING - {"documents"}),
    "a title": (edit("documents/bread/rye.md", "# Rye bread", "# Rye loaf"), EVERYTHING),
    "a text": (edit("documents/oven.txt", "Leave", "Keep"), EVERYTHING),
    "id of a document": (rename_a_document, EVERYTHING),
}


@pytest.mark.parametrize(("change", "made_again"), CHANGES.values(), ids=CHANGES)
def test_a_change_makes_again_what_depends_on_it_and_nothing_else(
    experiment: Experiment, change: Callable[[Experiment], None], made_again: set[str]
) -> None:
    (before,) = run(experiment).settings
    stages = experiment.stages()
    assert {kind for kind, _ in stages} == EVERYTHING
    change(experiment)
    (after,) = run(experiment).settings
    assert {kind for kind, _ in experiment.stages() - stages} == made_again
    assert stages < experiment.stages() or not made_again
    texts_of_queries_alone = made_again == {"rankings"} and before.parameters == after.parameters
    same = not made_again or made_again == {"latency"} or texts_of_queries_alone
    assert (before.fingerprint == after.fingerprint) == same


@pytest.fixture(scope="module")
def with_model(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Experiment:
    """A finished experiment with a model beside its config, a Chroma index, sizes in tokens, and latency."""
    experiment = write_experiment(
        tmp_path_factory.mktemp("model") / "kitchen",
        chunker={"kind": "recursive", "size": 20, "overlap": 0},
        embedder={"kind": "sentence-transformer", "model": "./model", "device": "cpu"},
        store={"kind": "chroma"},
        latency=True,
    )
    shutil.copytree(tiny_model, experiment.folder / "model")
    run(experiment)
    assert {kind for kind, _ in experiment.stages()} == set(STAGES)
    return experiment


def append(name: str, content: bytes) -> Callable[[Experiment], None]:
    def change(experiment: Experiment) -> None:
        with (experiment.folder / name).open("ab") as file:
            file.write(content)

    return change


def other_weights(experiment: Experiment) -> None:
    """One bit of one of them."""
    file = experiment.folder / "model" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-4] ^= 1
    file.write_bytes(bytes(content))


def touch_the_model(experiment: Experiment) -> None:
    for file in (experiment.folder / "model").rglob("*"):
        os.utime(file, (1, 1))


def move_the_model(experiment: Experiment) -> None:
    shutil.move(experiment.folder / "model", experiment.folder / "renamed")
    edit("config.yaml", '"./model"', '"./renamed"')(experiment)


def option(old: str, new: str) -> Callable[[Experiment], None]:
    return config(old, f"{old}, {new}")


INDEXED = {"indexes", "rankings", "latency", "use"}
EMBEDDED = {"embeddings", *INDEXED}
CUT = {"chunks", "lengths", *EMBEDDED}


MODEL_CHANGES: dict[str, tuple[Callable[[Experiment], None], set[str]]] = {
    "another place": (lambda _: None, set()),
    "name of the model": (move_the_model, set()),
    "touched files of the model": (touch_the_model, set()),
    "the model's README": (append("model/README.md", b"new"), set()),
    "device": (config('"device": "cpu"', '"device": null'), {"latency"}),
    "the length that the model declares": (option('"device": "cpu"', '"max_length": 64'), set()),
    "the prefix that the model declares": (option('"device": "cpu"', '"query_prefix": ""'), set()),
    "a default": (option('"kind": "chroma"', '"hnsw": {"ef_search": 100}'), set()),
    "weights": (other_weights, EMBEDDED),
    "tokenizer": (append("model/tokenizer.json", b" "), CUT),
    "maximum length": (option('"device": "cpu"', '"max_length": 32'), EMBEDDED),
    "precision": (option('"device": "cpu"', '"precision": "bfloat16"'), EMBEDDED),
    "less top_k": (config('"top_k": 3', '"top_k": 2'), {"latency"}),
    "ef_search": (option('"kind": "chroma"', '"hnsw": {"ef_search": 99}'), INDEXED),
}


@pytest.mark.parametrize(("change", "made_again"), MODEL_CHANGES.values(), ids=MODEL_CHANGES)
def test_each_stage_hashes_what_changes_it_and_nothing_else(
    with_model: Experiment, tmp_path: Path, change: Callable[[Experiment], None], made_again: set[str]
) -> None:
    experiment = Experiment(shutil.copytree(with_model.folder, tmp_path / "elsewhere"))
    stages = experiment.stages()
    change(experiment)
    run(experiment)
    assert {kind for kind, _ in experiment.stages() - stages} == made_again


@pytest.mark.parametrize(("place", "made_again"), [
    ("ragtrial.dataset.documents.READER_VERSION", {"documents", *CUT}),
    ("ragtrial.components.chunkers.plain.RecursiveChunker.revision", CUT),
    ("ragtrial.components.retrievers.dense.DenseRetriever.ranking_version", {"rankings", "latency"}),
])  # fmt: skip
def test_a_newer_version_of_a_part_makes_again_what_it_made(
    with_model: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, made_again: set[str]
) -> None:
    experiment = Experiment(shutil.copytree(with_model.folder, tmp_path / "elsewhere"))
    stages = experiment.stages()
    monkeypatch.setattr(place, 999)
    run(experiment)
    assert {kind for kind, _ in experiment.stages() - stages} == made_again


def test_a_finished_experiment_runs_again_without_loading_a_model_or_chroma(tmp_path: Path, tiny_model: Path) -> None:
    experiment = write_experiment(
        tmp_path,
        chunker={"kind": "recursive", "size": 40, "overlap": 0},
        embedder={"kind": "sentence-transformer", "model": str(tiny_model), "device": "cpu"},
        store={"kind": "chroma"},
        latency=True,
    )
    first = run(experiment)
    stages = experiment.stages()
    heavy = "print([name for name in ('torch', 'transformers', 'chromadb', 'scipy') if name in sys.modules])"
    done = python(f"{RUN}; {heavy}", experiment.file)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert experiment.stages() == stages
    (other,) = (path for path in (experiment.folder / "results" / "kitchen").glob("2*") if path.name != first.run_id)
    second = load_report(other)
    assert numbers(second.settings[0]) == numbers(first.settings[0])
    assert second.settings[0].latency == first.settings[0].latency


def test_a_failure_while_embedding_leaves_no_stage_that_counts(experiment: Experiment) -> None:
    experiment.trouble("raise", after=5)
    with pytest.raises(EmbedderError, match=r"^embedding:embed raised ConnectionError for 4 texts: out of quota$"):
        rankings(experiment, ["rye"])
    assert {kind for kind, _ in experiment.stages()} == {"documents", "chunks", "lengths"}
    experiment.no_trouble()
    assert rankings(experiment, ["rye"]).ranked.rankings.lengths.tolist() == [3]


QUESTIONS = [query["text"] for query in QUERIES]


@pytest.mark.parametrize("kind", [*sorted(EVERYTHING), "vectors", "locks", "uses"])
def test_any_part_of_the_workspace_may_be_deleted(experiment: Experiment, kind: str) -> None:
    first = run(experiment)
    shutil.rmtree(experiment.workspace / kind)
    assert numbers(run(experiment).settings[0]) == numbers(first.settings[0])


def test_search_finds_for_one_text_what_a_run_finds_for_it(experiment: Experiment) -> None:
    (hits,) = search_settings(experiment.config(), QUESTIONS[0]).values()
    found = rankings(experiment, QUESTIONS)
    units = found.ranked.units[0].tolist()
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert [hit.doc for hit in hits] == [found.chunks.document_id(unit) for unit in units]
    for hit in hits:
        assert DOCUMENTS[hit.doc][hit.start : hit.end] == hit.text != ""
    assert [hit.score for hit in hits] == found.ranked.rankings.scores[0].tolist()


def test_long_texts_are_counted_without_embedding_any(experiment: Experiment, minilm_folder: Path) -> None:
    limits = (f"embedder.tokenizer_model={minilm_folder}", "embedder.max_length=11")
    made = made_of(experiment, QUESTIONS, *limits)
    counted = made.graph.too_long(made.corpus.stages(made.setting), made.graph.written.questions)
    assert experiment.embedded() == []
    assert made.result().diagnostics.too_long == counted
    assert counted["queries"] == 1  # "How many days does soup keep in the fridge?" with its two special tokens
    assert counted["chunks"] not in (None, 0)


def test_latency_is_measured_for_each_query_alone_once(experiment: Experiment) -> None:
    rankings(experiment, QUESTIONS, "retrievers.dense.top_k=2")
    before = len(experiment.embedded())
    latency = present(rankings(experiment, QUESTIONS, latency=True).latency)
    asked = experiment.embedded()[before:]
    assert latency.n == len(QUESTIONS)
    assert 0 < latency.p50 <= latency.p95
    assert sorted(asked[3:]) == sorted(QUESTIONS)
    assert asked[:3] == asked[3:6]
    measured = [rankings(experiment, QUESTIONS[:count], latency=True).latency for count in (2, 2, 3)]
    assert measured[0] == measured[1]
    assert [one.n for one in measured if one] == [2, 2, 3]


@pytest.mark.parametrize(
    ("settings", "overrides", "is_measured"),
    [(10, (), True), (11, (), False), (11, ("latency=true",), True), (1, ("latency=false",), False)],
)
def test_latency_is_measured_by_default_in_runs_of_at_most_ten_settings(
    tmp_path: Path, settings: int, overrides: Sequence[str], *, is_measured: bool
) -> None:
    experiment = write_experiment(tmp_path)
    file = experiment.file
    config = json.loads(file.read_text())
    del config["latency"]
    config["retrievers"] = {f"top{k}": {"kind": "dense", "top_k": k} for k in range(1, settings + 1)}
    file.write_text(json.dumps(config))
    evaluator = Run.of(experiment.config(*overrides))
    assert len(evaluator.settings) == settings
    graph = evaluator.graph
    stages = [graph.latency_stage(setting, graph.ranking_stage(setting)) for setting in evaluator.settings]
    assert {stage is not None for stage in stages} == {is_measured}


def test_each_setting_is_timed_to_its_own_depth_though_they_share_rankings(experiment: Experiment) -> None:
    made = made_of(experiment, QUESTIONS, "retrievers.deep={kind: dense, top_k: 5}", latency=True)
    rankings = [made.graph.ranking_stage(setting) for setting in made.graph.settings]
    assert rankings[0] is rankings[1]
    pairs = zip(made.graph.settings, rankings, strict=True)
    timed = [made.graph.latency_stage(setting, ranking) for setting, ranking in pairs]
    assert [stage.inputs()["top_k"] for stage in timed if stage] == [3, 5]


def test_the_latency_of_a_fusion_is_that_of_all_its_parts_together(experiment: Experiment) -> None:
    fusion = ("retrievers.bm25={kind: bm25}", "retrievers.one={kind: fusion, inputs: [dense, bm25], top_k: 3}")
    run(experiment, *fusion)
    before = len(experiment.embedded())
    made = made_of(experiment, QUESTIONS, *fusion, latency=True)
    for setting in made.graph.settings:
        assert made.graph.latency_stage(setting, made.graph.ranking_stage(setting)) is not None
        made.graph.result(setting)
    added = experiment.embedded()[before:]
    assert sorted(set(added)) == sorted(QUESTIONS)
    assert len(added) == 2 * (3 + len(QUESTIONS))  # dense, and the fusion


def test_two_runs_never_wait_for_each_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No lock is taken under another one that a run takes under it."""
    caplog.set_level("DEBUG", "filelock")
    chunkers = {"whole": {"kind": "document"}, "short": {"kind": "fixed", "size": 90, "unit": "characters"}}
    parts = {name: {"kind": "dense", "chunker": chunker} for name, chunker in chunkers.items()}
    experiment = write_experiment(tmp_path, store={"kind": "chroma"}, latency=True,
                                  retrievers={**parts, "both": {"kind": "fusion", "inputs": list(parts)}})  # fmt: skip
    for workspace, inputs in (("one", [*parts]), ("other", [*parts][::-1])):
        run(experiment, f"workspace={tmp_path / workspace}", f"retrievers.both.inputs={json.dumps(inputs)}")
    held, nested = dict[int | None, list[str]](), set[tuple[str, str]]()
    for record in (record for record in caplog.records if record.name == "filelock"):
        lock, locks = Path(str(record.args[1])).name, held.setdefault(record.thread, [])  # type: ignore[index]
        if " acquired " in record.msg:
            nested |= {(outer, lock) for outer in locks}
            locks.append(lock)
        elif " released " in record.msg:
            locks.remove(lock)
    assert nested
    assert not nested & {(inner, outer) for outer, inner in nested}


def test_tokens_cannot_be_asked_of_a_model_without_a_tokenizer(tiny_model: Path, tmp_path: Path) -> None:
    """Counting characters in their place would cut everything five times too small, without a word."""
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    (model / "tokenizer.json").unlink()
    experiment = write_experiment(tmp_path / "kitchen")
    embedder = f"embedder={{kind: sentence-transformer, model: {model}}}"
    with pytest.raises(ModelNotFoundError) as caught:
        run_experiment(experiment.config(embedder, "chunker={kind: recursive, size: 50, overlap: 0, unit: tokens}"))
    message = (
        "its embedder has no tokenizer.json, so tokens cannot be counted; set chunker.unit: characters or "
        "chunker.tokenizer: words."
    )
    assert str(caught.value).endswith(f"config.yaml:22:3: setting 'dense': {message}")


def test_a_corpus_that_changes_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = write_experiment(tmp_path)
    corpus = Path(experiment.config().dataset.corpus or "")
    read = Library.write

    def write(folder: Path, made: Path, on_error: OnError) -> None:
        read(folder, made, on_error)
        (corpus / "late.md").write_text("# Late\n")

    monkeypatch.setattr(Library, "write", write)
    with pytest.raises(RunError, match=r"changed while they were read; run the same command again\.$"):
        run_experiment(experiment.config())
    assert not [kind for kind, _ in experiment.stages() if kind == "documents"]
