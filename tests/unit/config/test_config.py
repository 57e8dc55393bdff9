"""A config is read whole or refused with every fault: file, line and column, what was found, what is expected."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expectations import message_of
from experiments import python, write_experiment
from ragtrial import RetrievalEvaluator, load_config
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.config import ExperimentConfig
from ragtrial.config.metric_choice import choose_metrics
from ragtrial.engines import STORES
from ragtrial.engines.chroma import ChromaStore
from ragtrial.errors import ConfigError
from ragtrial.evaluation.metrics import METRICS
from ragtrial.records import Judgment, Query
from scenarios import OF_DOCUMENTS, OF_SPANS
from small_experiment import CONFIG


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_experiment(tmp_path)  # labels and documents without a fault
    monkeypatch.chdir(tmp_path)


def load(text: str, *overrides: str, **files: str) -> ExperimentConfig:
    """The config of ``text``, beside other configs by name."""
    for name, content in {**files, "config": text}.items():
        path = Path(f"{name}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return load_config("config.yaml", overrides)


def faults_of(text: str, *overrides: str, **files: str) -> list[str]:
    """What is wrong with ``text``, one line a fault, without the file's own name."""
    with pytest.raises(ConfigError) as caught:
        load(text, *overrides, **files)
    return [line.removeprefix("config.yaml:") for line in str(caught.value).splitlines()]


def with_(old: str, new: str) -> str:
    assert CONFIG.count(old) == 1
    return CONFIG.replace(old, new)


KINDS = ", ".join
TOP_LEVEL = (
    "experiment, dataset, chunker, context, embedder, store, retrievers, sweep, search, evaluators, output, workspace, "
    "executor, latency, seed"
)


def test_default_metrics_and_cutoffs_are_those_of_the_page(root: Path) -> None:
    choice, faults = choose_metrics(load_config(root / "configs" / "quickstart.yaml"))
    assert not faults
    assert str(choice.primary) == "ndcg@10"
    assert {str(metric) for metric in choice.metrics} == {
        *(f"{name}@{k}" for name in ("precision", "recall", "f1", "hit_rate") for k in (1, 3, 5, 10)),
        *("rr@10", "ap@10", "rbp(p=0.8)@10"),
        *(f"{name}@{k}" for name in ("dcg", "ndcg", "judged") for k in (5, 10)),
    }
    # The lowest top_k decides, since all settings are scored by the same metrics.
    text = with_("  dense: {kind: dense, top_k: 3}", "  a: {kind: dense, top_k: 20}\n  b: {kind: dense, top_k: 4}")
    choice, faults = choose_metrics(load(text))
    assert not faults
    assert str(choice.primary) == "ndcg@4"
    assert {metric.k for metric in choice.metrics if metric.name == "recall"} == {1, 3}
    assert {metric.k for metric in choice.metrics if metric.name == "ap"} == {4}
    text = CONFIG + "evaluators: {order_aware: {k: [3], metrics: [RR, mrr@3, rr@3, rbp]}, primary_metric: NDCG}\n"
    choice, faults = choose_metrics(load(text))
    assert not faults
    assert [str(metric) for metric in choice.metrics if metric.definition.family == "order_aware"] == [
        "rr@3", "ap@3", "rbp(p=0.8)@3"]  # fmt: skip
    assert str(choice.primary) == "ndcg@3"
    families = ("order_unaware", "order_aware", "graded")
    texts = [f"evaluators: {{{', '.join(f'{name}: {{k: {k}}}' for name in families)}}}\n" for k in ("3", "[3]")]
    one, listed = (load(CONFIG + text).evaluators for text in texts)
    assert one == listed
    assert one.graded.k == [3]


@pytest.mark.parametrize(("judgment", "ordered", "added"), [
    (Judgment("a"), False, set()), (Judgment("a"), True, {"rbo"}), (Judgment("a", -1), False, {"forbidden"}),
    (Judgment("a", group="g"), False, {"complete"}),
])  # fmt: skip
def test_labels_of_a_kind_add_the_metrics_that_need_them(judgment: Judgment, ordered: bool, added: set[str]) -> None:
    usual, _ = choose_metrics(load(CONFIG))
    choice, _ = choose_metrics(load(CONFIG), [Query("q", "?", (judgment,), ordered=ordered)])
    assert {metric.name for metric in set(choice.metrics) - set(usual.metrics)} == added


@pytest.mark.parametrize("name", ["sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"])
def test_the_name_of_a_model_on_the_hub_is_not_taken_for_a_path(name: str) -> None:
    text = with_('{kind: custom, function: "hashing:embed"}', f"{{kind: sentence-transformer, model: {name}}}")
    embedder = load(text).embedder
    assert isinstance(embedder, SentenceTransformerEmbedder)
    assert embedder.model == name


WRONG = [
    ("unknown key", CONFIG + "retreivers: {}\n",
     f"9:1: unknown key 'retreivers'. Did you mean 'retrievers'? Allowed here: {TOP_LEVEL}."),
    ("unknown key of a kind", with_("{kind: exact}", "{kind: chroma, hnsw: {ef_serach: 3}}"),
     "5:30: unknown key 'ef_serach' in store.hnsw. Did you mean 'ef_search'? "
     "Allowed here: ef_construction, max_neighbors, ef_search."),
    ("a key of another kind", with_("{kind: exact}", "{kind: exact, hnsw: {}}"),
     "5:22: unknown key 'hnsw' in store. That is an option of kind: chroma. Allowed here: kind, space, quantize, "
     "rescore."),
    ("a key of two letters", with_("{kind: dense, top_k: 3}", "{kind: bm25, kl: 2}"),
     "7:23: unknown key 'kl' in retrievers.dense. Did you mean 'k1'? Allowed here: kind, top_k, score, chunker, "
     "context, embedder, method, k1, b, delta, stemmer, stop_words, title_weight."),
    ("missing key", with_("experiment: small\n", ""), "1:1: experiment is missing; it is required."),
    ("no dataset", with_("{corpus: documents, queries: prompt_queries.json}", "{}"),
     "2:1: dataset: corpus and queries must be given (or beir: a BEIR folder)."),
    ("empty where there is a default", with_("top_k: 3", "top_k:"),
     "7:24: retrievers.dense.top_k is null; it must be a whole number. Leave the key out for its default."),
    ("empty retrievers", with_("  dense: {kind: dense, top_k: 3}\n", ""),
     "6:1: retrievers is null; it must be a mapping of names to values."),
    ("no retriever", with_("\n  dense: {kind: dense, top_k: 3}\n", " {}\n"),
     "6:1: retrievers has 0 entries; it must have at least 1."),
    ("path with NUL", with_("latency: false", 'workspace: "a\\0b"'),
     "8:1: workspace: a path must not have the character NUL, nor half of a surrogate pair."),
    ("yes for true", with_("latency: false", "latency: yes"), "8:1: latency is 'yes'; it must be true or false."),
    ("text for a list of numbers", CONFIG + "evaluators: {order_aware: {k: three}}\n",
     "9:28: evaluators.order_aware.k is 'three'; it must be a list."),
    ("list for a mapping", with_("{kind: exact}", "[]"),
     f"5:1: store is a list; it must be a mapping of keys to values, like {{kind: {STORES.names()[0]}}}."),
    ("a kind by its name alone", with_("{kind: exact}", "exact"),
     "5:1: store is 'exact'; it must be a mapping of keys to values, like {kind: exact}."),
    ("the key of a kind with a typo", with_("{kind: exact}", "{knd: exact}"),
     f"5:1: store.kind is missing; it must be one of: {KINDS(STORES.names())}."),
    ("unknown kind", with_("{kind: exact}", "{kind: exakt}"),
     f"5:1: store.kind is 'exakt'; it must be one of: {KINDS(STORES.names())}. Did you mean 'exact'?"),
    ("unknown word", with_("{kind: exact}", "{kind: exact, space: cosin}"),
     "5:22: store.space is 'cosin'; it must be one of: cosine, ip, l2. Did you mean 'cosine'?"),
    ("below the least", with_("top_k: 3", "top_k: 0"),
     "7:24: retrievers.dense.top_k is 0; it must be at least 1 (default 10)."),
    ("a name with a slash", with_("experiment: small", "experiment: ../small"),
     "1:1: experiment is '../small'; it must be made of letters, digits, - and _, a letter or digit first."),
    ("a retriever's name with a space", with_("  dense: {", "  a b: {"),
     "7:3: retrievers has the name 'a b'; a name must be made of letters, digits, - and _, a letter or digit first."),
    ("tokens without a tokenizer", with_("{kind: document}", "{kind: recursive, unit: tokens}"),
     "3:28: chunker.unit is tokens, but the custom embedder has no tokenizer to count them; set unit: characters "
     "(size: 800, overlap: 160 is about as long) or tokenizer: words, or give the embedder a tokenizer_model."),
    ("a function without a module", with_("hashing:embed", "embed"),
     "4:26: embedder.function: 'embed' must be written package.module:function."),
    ("a coverage without spans", CONFIG + "evaluators: {span_coverage: 0.7}\n",
     "9:14: evaluators.span_coverage has no effect without unit: span; set that, or leave it out."),
    ("a metric of spans where documents are found", CONFIG + "evaluators: {primary_metric: span_iou@2}\n",
     "9:14: evaluators.primary_metric: span_iou@2 is not defined where documents (unit: document) are found. "
     f"Those that are: {', '.join(OF_DOCUMENTS)}."),
    ("a metric of documents where spans are found",
     CONFIG + "evaluators: {unit: span, graded: {metrics: [err@2]}}\n",
     "9:45: evaluators.graded.metrics[0]: err(max=4)@2 is not defined where passages in chunks (unit: span) are found. "
     f"Those that are: {', '.join(OF_SPANS)}."),
    ("a named metric above top_k", CONFIG + "evaluators: {order_aware: {metrics: ['rbp(p=0.8)@9']}}\n",
     "9:38: evaluators.order_aware.metrics[0] is rbp(p=0.8)@9, cut above the top_k of 3 of 'dense'; only that many "
     "are kept. Lower k, or raise every retriever's top_k."),
    ("much above top_k", CONFIG.replace("top_k: 3}", "top_k: 9}\n  low: {kind: dense, top_k: 2}")
     + "evaluators:\n  order_unaware: {k: [1, 5, 9]}\n  graded: {k: [3]}\n",
     "11:26: evaluators.order_unaware.k[1] is 5, above the top_k of 2 of 'low' (and 2 more cutoffs); only that many "
     "are kept. Lower k, or raise every retriever's top_k."),
    ("a metric of another family", CONFIG + "evaluators: {order_aware: {metrics: [ndcg@3]}}\n",
     "9:38: evaluators.order_aware.metrics[0] is ndcg@3, which is graded; list it in evaluators.graded."),
    ("an unknown metric", CONFIG + "evaluators: {primary_metric: ndgc@3}\n",
     "9:14: evaluators.primary_metric: 'ndgc@3': there is no metric 'ndgc'. Did you mean 'ndcg'? "
     f"Known: {KINDS(sorted(METRICS.names()))}."),
    ("a metric of whole rankings", CONFIG + "evaluators: {order_aware: {metrics: [bpref]}}\n",
     "9:38: evaluators.order_aware.metrics[0] is bpref, which has no cutoff, and a run keeps only the first hits "
     "(top_k). `ragtrial score` has it, for whole rankings."),
    ("a list of settings", "- 1\n", "1:1: must be a mapping of keys to values, like `experiment: first`."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_config_that_is_wrong_is_refused_with_the_place_and_what_is_right(text: str, fault: str) -> None:
    assert faults_of(text) == [fault]


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    text = with_("top_k: 3", "topk: 3, store: {kind: exakt}") + (
        "sead: 1\nevaluators:\n  unit: spam\n  relevance_threshold: 0\n  graded: {k: [x, 1, -1]}\n"
    )
    assert [fault.partition(" ")[0] for fault in faults_of(text)] == [
        "7:24:", "7:33:", "9:1:", "11:3:", "12:3:", "13:16:", "13:22:",
    ]  # fmt: skip
    text = with_("{kind: document}", "{kind: recursive}") + (
        "evaluators:\n  span_coverage: 0.5\n  graded: {k: [4, 2, 5], metrics: [rr@3]}\n  primary_metric: rr@9\n"
    )
    assert [line.partition(" ")[0] for line in faults_of(text)] == ["10:3:", "11:16:", "11:36:", "3:1:"]
    load(CONFIG)
    message = message_of(ConfigError, load_config, {"extends": "config.yaml", "seed": "one"})
    assert message == "seed is 'one'; it must be a whole number."


def test_a_config_made_in_python_is_checked_as_one_from_a_file_is() -> None:
    values: dict[str, Any] = {
        "experiment": "made",
        "dataset": {"corpus": "documents", "queries": "labels.json"},
        "retrievers": {"dense": {"kind": "dense", "top_k": 3}},
        "evaluators": {"graded": {"k": [4]}},
    }
    config = ExperimentConfig.model_validate(values)
    assert message_of(ConfigError, RetrievalEvaluator, config) == (
        "evaluators.graded.k[0] is 4, above the top_k of 3 of 'dense'; only that many are kept. Lower k, or "
        "raise every retriever's top_k."
    )


def test_a_config_is_laid_upon_its_bases_mapping_by_mapping_and_kind_by_kind() -> None:
    config = load(
        "extends: base.yaml\nseed: 7\nretrievers:\n  dense: {top_k: 2}\n  second: {kind: dense, top_k: 5}\n",
        base=CONFIG + "evaluators: {graded: {k: [1, 2]}, no_relevant: zero}\n",
    )
    assert config.seed == 7
    assert {name: one.top_k for name, one in config.retrievers.items()} == {"dense": 2, "second": 5}
    assert config.evaluators.graded.k == [1, 2]
    assert config.evaluators.no_relevant == "zero"
    assert config.latency is False
    base = CONFIG.replace("{kind: exact}", "{kind: chroma, space: l2, hnsw: {ef_search: 7}}")
    other = load("extends: base.yaml\nstore: {kind: exact}\n", base=base).store
    assert (other.kind, other.space) == ("exact", "cosine")
    same = load("extends: base.yaml\nstore: {kind: chroma, hnsw: {max_neighbors: 5}}\n", base=base).store
    assert isinstance(same, ChromaStore)
    assert (same.space, same.hnsw.ef_search, same.hnsw.max_neighbors) == ("l2", 7, 5)
    without = load("extends: base.yaml\nstore: {space: ip}\n", base=base).store
    assert isinstance(without, ChromaStore)
    assert (without.space, without.hnsw.ef_search) == ("ip", 7)
    config = load(
        "extends: [one.yaml, two.yaml]\nexperiment: three\n",
        one=CONFIG + "seed: 1\nevaluators: {relevance_threshold: 2}\n",
        two="experiment: two\nseed: 2\n",
    )
    assert (config.experiment, config.seed, config.evaluators.relevance_threshold) == ("three", 2, 2)


def test_paths_and_faults_belong_to_the_file_that_they_are_written_in(tmp_path: Path) -> None:
    base = CONFIG.replace("corpus: documents", "corpus: ../documents") + "output: {directory: out}\n"
    config = load("extends: shared/deep/base.yaml\ndataset: {queries: own.json}\n", **{"shared/deep/base": base})
    assert config.dataset.corpus == str(tmp_path / "shared" / "documents")
    assert config.dataset.queries == str(tmp_path / "own.json")
    assert config.output.directory == str(tmp_path / "shared" / "deep" / "out")
    assert faults_of("extends: base.yaml\nsead: 1\n", base=CONFIG + "evaluators: {unit: spam}\n") == [
        f"{tmp_path / 'base.yaml'}:9:14: evaluators.unit is 'spam'; it must be one of: document, span. "
        "Did you mean 'span'?",
        f"2:1: unknown key 'sead'. Did you mean 'seed'? Allowed here: {TOP_LEVEL}.",
    ]


def test_rings_and_too_large_files_are_refused(tmp_path: Path) -> None:
    config, one = tmp_path / "config.yaml", tmp_path / "one.yaml"
    assert faults_of("seed: 1\nextends: config.yaml\n") == [f"2:1: extends itself: {config} -> {config}."]
    assert faults_of("extends: [one.yaml]\n", one="seed: 1\nextends: config.yaml\n") == [
        f"{one}:2:1: extends itself: {config} -> {one} -> {config}."
    ]
    # At the limit it is read; beyond it there is one sentence, in no time.
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG + "#" * (1_000_000 - len(CONFIG)), encoding="utf-8")
    assert load_config(file).experiment == "small"
    with file.open("a", encoding="utf-8") as more:
        more.write("#")
    with pytest.raises(ConfigError, match=r"config\.yaml: has 1,000,001 bytes, and a config has at most 1,000,000; "):
        load_config(file)


@pytest.mark.parametrize(("line", "fault"), [
    ("extends: nowhere.yaml", "1:1: extends is 'nowhere.yaml'; there is no file {}/nowhere.yaml."),
    ("extends: [base.yaml, nowhere.yaml]", "1:22: extends is 'nowhere.yaml'; there is no file {}/nowhere.yaml."),
    ("extends: 3", "1:1: extends is 3; it must be a path, or a list of paths."),
    ("extends: {a: b}", "1:1: extends is a mapping; it must be a path, or a list of paths."),
    ("extends: [base.yaml, [a]]", "1:22: extends is a list; it must be a path, or a list of paths."),
])  # fmt: skip
def test_a_base_that_is_not_there_is_refused_where_it_is_named(line: str, fault: str, tmp_path: Path) -> None:
    assert faults_of(line + "\n", base=CONFIG) == [fault.format(tmp_path)]


@pytest.mark.parametrize(("override", "path", "expected"), [
    ("seed=7", "seed", 7), ("seed = 7", "seed", 7), ("latency=true", "latency", True),
    ("experiment=no", "experiment", "no"), ("experiment='7'", "experiment", "7"),
    ("evaluators.graded.k=[1, 2]", "evaluators.graded.k", [1, 2]),
    ("evaluators.graded={k: [2]}", "evaluators.graded.k", [2]),
    ("embedder.query_prefix=", "embedder.query_prefix", ""),
    ("embedder.query_prefix='a=b'", "embedder.query_prefix", "a=b"),
    ("embedder.query_prefix=a=b", "embedder.query_prefix", "a=b"),
])  # fmt: skip
def test_an_override_is_read_as_yaml_and_lies_on_the_config(override: str, path: str, expected: object) -> None:
    found: Any = load(CONFIG, override)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == expected


def test_the_path_of_an_override_is_relative_to_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(CONFIG)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = load_config(tmp_path / "config.yaml", ["dataset.queries=own.json"])
    assert config.dataset.queries == str(tmp_path / "elsewhere" / "own.json")
    assert config.dataset.corpus == str(tmp_path / "documents")


@pytest.mark.parametrize(("override", "fault"), [
    ("seed", "'seed' must be written KEY=VALUE, like retrievers.dense.top_k=20."),
    ("=3", "'=3' must be written KEY=VALUE, like retrievers.dense.top_k=20."),
    ("a..b=3", "'a..b=3' must be written KEY=VALUE, like retrievers.dense.top_k=20."),
    ("seed=#x", "'seed=#x': a value that begins with # must be in quotes."),
    ("seed=x", "seed is 'x'; it must be a whole number."),
    ("seed=", "seed is ''; it must be a whole number."),
    ("sead=1", f"unknown key 'sead'. Did you mean 'seed'? Allowed here: {TOP_LEVEL}."),
    ("extends=base.yaml", "extends can only be written in a file; set the keys themselves."),
    ("retrievers.dens.top_k=9", "there is no retriever 'dens'. Did you mean 'dense'? Known: dense."),
    ("chunker.size=9", "unknown key 'size' in chunker. "
           "That is an option of kind: code, fixed, markdown, recursive, semantic, "
           "sentence. Allowed here: kind."),
    ("evaluators.graded.k=[1, 9]",
     "evaluators.graded.k[1] is 9, above the top_k of 3 of 'dense'; only that many are kept. Lower k, or "
     "raise every retriever's top_k."),
])  # fmt: skip
def test_a_wrong_override_is_refused_by_its_number(override: str, fault: str) -> None:
    assert faults_of(CONFIG, "latency=true", override) == [f"--set #2: {fault}"]


def test_an_override_that_is_no_yaml_is_refused_with_the_column_in_its_value() -> None:
    assert faults_of(CONFIG, "evaluators.graded.k=[1") == [
        "--set #1:1:3: expected ',' or ']', but got 'end of file'; the mistake may be in line 1."
    ]


def test_as_written_keeps_variables_unresolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOP_K", "2")
    monkeypatch.setenv("SECRET", "classified")
    text = (
        with_("{kind: dense, top_k: 3}", "\n    kind: dense\n    top_k: ${TOP_K}")
        + "output: {directory: '${SECRET}'}\n"
    )
    config = load(text, "embedder.query_prefix=${SECRET}")
    assert config.retrievers["dense"].top_k == 2
    assert config.output.directory.endswith("/classified")
    assert config.as_written["retrievers"] == {"dense": {"kind": "dense", "top_k": "${TOP_K}"}}
    assert config.as_written["output"] == {"directory": "${SECRET}"}
    assert config.as_written["embedder"]["query_prefix"] == "${SECRET}"
    assert config.text == text
    assert "classified" not in str(config.as_written)


def test_only_the_kinds_that_a_config_names_are_imported(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, retrievers={"words": {"kind": "bm25"}})
    program = (
        "import sys, ragtrial.experiment; from ragtrial import load_config; load_config(sys.argv[1])\n"
        "print(*(name.removeprefix('ragtrial.').removeprefix('components.') for name in sys.modules))"
    )
    found = set(python(program, experiment.file).stdout.split())
    assert {"chunkers.plain", "embedders.custom", "engines.exact", "retrievers.bm25"} <= found
    others = {"embedders.endpoint", "engines.chroma", "engines.milvus", "retrievers.token_search", "refiners.fusion"}
    assert not others & found


def test_a_config_is_a_path_a_dict_or_a_config_and_needs_what_it_uses() -> None:
    loaded = load(CONFIG)
    written = {**loaded.as_written, "dataset": {"corpus": Path("documents"), "queries": "prompt_queries.json"}}
    assert load_config(loaded) is loaded
    assert load_config(written).model_dump() == loaded.model_dump() == load_config("config.yaml").model_dump()
    assert load_config(written).dataset.corpus == str(Path("documents").absolute())
    for config in (written, loaded, Path("config.yaml")):
        assert load_config(config, ["retrievers.dense.top_k=2"]).retrievers["dense"].top_k == 2
    assert load_config({"extends": "config.yaml", "seed": np.int64(7)}).seed == 7
    text = with_("dense: {kind: dense, top_k: 3}", "file: {kind: run_file, path: a.run, top_k: 3}")
    assert load(text.replace("{kind: document}", "{kind: recursive}")).chunker.kind == "recursive"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_config_and_its_base_are_read_as_their_byte_order_mark_says(encoding: str, tmp_path: Path) -> None:
    """The Notepad and the shell of Windows write such files."""
    text = ("\ufeff" if encoding.endswith("be") else "") + CONFIG + "# café, 猫\n"
    (tmp_path / "base.yaml").write_bytes(text.encode(encoding))
    (tmp_path / "config.yaml").write_bytes("extends: base.yaml\n".encode("utf-16"))
    config = load_config(tmp_path / "base.yaml")
    assert (config.experiment, config.text) == ("small", CONFIG + "# café, 猫\n")
    assert load_config(tmp_path / "config.yaml").experiment == "small"
