"""Settings of a config and of its sweep, as a user meets them: what they are called, which are one, what is shared."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from commands import Outcome
from experiments import QUERIES, Experiment, write_experiment
from ragtrial.config.settings import cutting, setting_of, settings_of
from ragtrial.errors import ConfigError
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.pipeline.run import Run
from ragtrial.report.model import Report, load_report
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]
DENSE = {"kind": "dense", "top_k": 3}
ENTRIES: dict[str, Any] = {
    "dense": {**DENSE, "score": False},
    "words": {"kind": "bm25", "top_k": 3, "score": False},
    "hybrid": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 3},
    "own": {**DENSE, "chunker": {"kind": "document"}},
}
MATRIX = {"chunker.size": [60, 90], "retrievers.hybrid.rank_constant": [10, 60]}


def experiment(folder: Path, sweep: object = None, **changes: Any) -> Experiment:
    return write_experiment(folder, **{"retrievers": ENTRIES, "sweep": sweep, **changes})


def names_of(made: Experiment, *overrides: str) -> list[str]:
    return [setting.name for setting in settings_of(made.config(*overrides))[0]]


def run(capsys: Capture, made: Experiment, *more: str) -> Outcome:
    return ragtrial(capsys, "run", made.file, *more)


def report_of(made: Experiment) -> Report:
    return load_report("latest", str(made.folder / "results"))


def fault_of(made: Experiment, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings_of(made.config(*overrides))
    return [str(fault).replace(str(made.file), "config.yaml") for fault in caught.value.faults]


def place_of(made: Experiment, text: str) -> str:
    """Line and column at which a text is in the config for the first time."""
    lines = made.file.read_text().splitlines()
    number = next(number for number, line in enumerate(lines) if text in line)
    return f"config.yaml:{number + 1}:{lines[number].index(text) + 1}"


def test_every_combination_is_a_setting_and_what_an_axis_does_not_reach_is_one(tmp_path: Path) -> None:
    settings, warnings = settings_of(experiment(tmp_path, {"matrix": MATRIX}).config())
    assert [(one.name, dict(one.values)) for one in settings] == [
        ("hybrid-rank_constant10-size60", {"chunker.size": 60, "retrievers.hybrid.rank_constant": 10}),
        ("own", {}),
        ("hybrid-rank_constant60-size60", {"chunker.size": 60, "retrievers.hybrid.rank_constant": 60}),
        ("hybrid-rank_constant10-size90", {"chunker.size": 90, "retrievers.hybrid.rank_constant": 10}),
        ("hybrid-rank_constant60-size90", {"chunker.size": 90, "retrievers.hybrid.rank_constant": 60}),
    ]
    assert warnings == []


@pytest.mark.parametrize(("entry", "axis", "reached"), [
    ("dense", "chunker.size", True), ("dense", "retrievers.dense.top_k", True),
    ("dense", "retrievers.dense.score", False), ("dense", "retrievers.words.k1", False),
    ("dense", "store.space", True), ("words", "store.space", False), ("words", "embedder.model", False),
    ("words", "context.title", True), ("own", "chunker.size", False), ("own", "embedder.model", True),
    ("hybrid", "chunker.size", True), ("hybrid", "store.space", True),
    ("hybrid", "retrievers.hybrid.top_k", True), ("hybrid", "retrievers.words.k1", True),
    ("hybrid", "retrievers.words.top_k", False), ("hybrid", "retrievers.own.chunker", False),
    ("far", "retrievers.words.k1", True), ("far", "retrievers.hybrid.rank_constant", True),
    ("far", "retrievers.hybrid.top_k", False),
])  # fmt: skip
def test_an_axis_reaches_all_that_it_changes(tmp_path: Path, entry: str, axis: str, *, reached: bool) -> None:
    entries = {**ENTRIES, "far": {"kind": "parent", "inputs": "hybrid", "top_k": 3}}
    config = experiment(tmp_path, retrievers=entries).config()
    assert setting_of(config, entry).is_reached(axis) is reached


def test_changed_copies_have_their_own_settings_and_names_say_what_cuts(tmp_path: Path) -> None:
    config = experiment(tmp_path, {"matrix": {"chunker.size": [60, 90]}}).config()
    assert len(settings_of(config)[0]) == 3
    words = config.retrievers["words"].model_copy(update={"score": True})
    changed = config.model_copy(update={"retrievers": {"words": words}})
    assert [setting.name for setting in settings_of(changed)[0]] == ["words-size60", "words-size90"]
    made = experiment(tmp_path, {"matrix": {"chunker.size": [60, 90]}})
    assert [(one.name, one.chunker.kind) for one in cutting(settings_of(made.config())[0])] == [
        ("dense of hybrid-size60", "recursive"),
        ("words of hybrid-size60", "recursive"),
        ("own", "document"),
        ("dense of hybrid-size90", "recursive"),
        ("words of hybrid-size90", "recursive"),
    ]


def test_equal_settings_are_one_and_that_is_said(tmp_path: Path, capsys: Capture) -> None:
    entries = {"one": DENSE, "two": DENSE, "deeper": {**DENSE, "top_k": 4}}
    made = experiment(tmp_path, retrievers=entries)
    assert run(capsys, made).code == 0
    report = report_of(made)
    assert [one.name for one in report.settings] == ["one", "deeper"]
    assert "setting 'two' is the same as 'one'; it is run and shown once, as 'one'." in [
        one.message for one in report.warnings
    ]
    assert [kind for kind, _ in made.stages()].count("rankings") == 1, "the shallower is cut from the deeper"


def test_functions_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    """A config beside its own function extends one with another of that name."""
    base = write_experiment(tmp_path / "base", retrievers={"near": {"kind": "custom", "function": "mine:find"}})
    (tmp_path / "mine.py").write_text("def find(queries, top_k):\n    return [['oven.txt'] for _ in queries]\n")
    (base.folder / "mine.py").write_text("def find(queries, top_k):\n    return [['storage.txt'] for _ in queries]\n")
    config = {"extends": "base/config.yaml", "retrievers": {"far": {"kind": "custom", "function": "mine:find"}}}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    settings, warnings = settings_of(Experiment(tmp_path).config())
    assert ([one.name for one in settings], warnings) == (["near", "far"], [])
    found = RetrievalEvaluator(Experiment(tmp_path).config()).retrieve()
    assert [one.results[0].hits[0].doc for one in found] == ["storage.txt", "oven.txt"]


@pytest.mark.parametrize(
    ("sweep", "at", "message"),
    [
        ({"matrix": MATRIX, "max_settings": 4}, '"sweep"',
         "the sweep comes to 5 settings; max_settings is 4. Take values out, or raise max_settings."),
        ({"matrix": {"retrievers.words.top_k": [3, 4], "chunker.size": [60]}}, '"retrievers.words.top_k"',
         "sweep.matrix.retrievers.words.top_k: retrievers.words.top_k reaches no setting: none is changed by it, "
         "or each has its own."),
        ({"matrix": {"chunker.kind": ["recursive", "sentence"], "chunker.unit": ["tokens"]}}, '"tokens"',
         "chunker.unit is tokens, but the custom embedder has no tokenizer to count them;"),
    ],
    ids=["too many", "reaches nothing", "another kind"],
)  # fmt: skip
def test_a_wrong_sweep_is_placed(tmp_path: Path, capsys: Capture, sweep: dict[str, Any], at: str, message: str) -> None:
    made = experiment(tmp_path, sweep)
    ended = run(capsys, made)
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    found = line.replace(str(made.file), "config.yaml").removeprefix("error: ")
    place, _, said = found.partition(": ")
    assert said.startswith(message)
    assert place.rpartition(":")[0] == place_of(made, at).rpartition(":")[0], "the line"
    assert not made.workspace.exists()


@pytest.mark.slow
def test_a_sweep_makes_each_stage_once_and_rows_of_settings_alone(tmp_path: Path, capsys: Capture) -> None:
    made = experiment(tmp_path, {"matrix": MATRIX})
    assert run(capsys, made).code == 0
    assert set(Counter(made.embedded()).values()) == {1}
    counts = Counter(kind for kind, _ in made.stages())
    # By size: chunks, embeddings, an index, rankings of dense, of words, and of each constant; and those of own.
    assert (counts["documents"], counts["chunks"], counts["embeddings"], counts["indexes"]) == (1, 3, 3, 3)
    assert counts["rankings"] == 2 * (1 + 1 + 2) + 1
    report = report_of(made)
    assert sorted(one.name for one in report.settings) == sorted(names_of(made))
    by_name = {one.name: one for one in report.settings}
    assert by_name["own"].parameters.get("values") is None
    swept = by_name["hybrid-rank_constant10-size90"].parameters
    assert swept["values"] == {"chunker.size": 90, "retrievers.hybrid.rank_constant": 10}
    assert swept["retriever"]["rank_constant"] == 10
    assert swept["parts"]["words"]["chunker"]["size"] == 90


def test_an_override_gives_an_axis_other_values_but_no_value_that_it_sets(tmp_path: Path) -> None:
    made = experiment(tmp_path, {"matrix": MATRIX})
    only = names_of(made, "sweep.matrix.chunker.size=[70]", "sweep.matrix.retrievers.hybrid.rank_constant=[10]")
    assert only == ["hybrid-rank_constant10-size70", "own"]
    added = names_of(made, "sweep.matrix={chunker.size: [70]}", "sweep.matrix.retrievers.words.k1=[1, 2]")
    assert [name for name in added if name.endswith("k1_2")] == [
        *("hybrid-rank_constant10-size70-k1_2", "hybrid-rank_constant60-size70-k1_2")
    ]
    made = experiment(tmp_path, {"matrix": {**MATRIX, "retrievers.words.k1, retrievers.words.b": [[1, 0.5]]}})
    assert fault_of(made, "seed=1", "chunker.size=70", "retrievers.words.b=0.1") == [
        "--set #2: chunker.size is an axis of the sweep; set sweep.matrix.chunker.size instead.",
        "--set #3: retrievers.words.b is an axis of the sweep; set sweep.matrix.retrievers.words.k1, "
        "retrievers.words.b instead.",
    ]
    assert names_of(made, "sweep=null", "chunker.size=70") == ["hybrid", "own"]


@pytest.mark.parametrize(
    ("entries", "at", "message"),
    [
        ({**ENTRIES, "hybrid": {"kind": "fusion", "inputs": ["dense", "wordz"]}, "words": {"kind": "bm25"}}, '"inputs"',
         "retrievers.hybrid.inputs names 'wordz', which is not a retriever. Did you mean 'words'? Known: dense, "
         "words, own."),
        ({"far": {"kind": "parent", "inputs": "near"}, "near": {"kind": "mmr", "inputs": "far"}}, '"inputs"',
         "retrievers.far.inputs leads back to itself: far -> near -> far; a refiner cannot refine itself."),
        ({"dense": DENSE, "Dense": {"kind": "bm25", "top_k": 3}}, '"Dense"',
         "settings of 'dense' and 'Dense' would be named 'Dense', and names must differ in more than case, as file "
         "names must; rename one."),
        ({"me": {"kind": "mmr", "inputs": "me"}}, '"inputs"', "retrievers.me.inputs leads back to itself: me -> me; "),
        ({"dense": {**DENSE, "score": False}, "far": {"kind": "mmr", "inputs": "dense", "score": False}},
         '"retrievers"', "every retriever has `score: false`; at least one must be a setting of its own."),
        ({"dense": {**DENSE, "score": False}, "own": DENSE}, '"score"',
         "retrievers.dense.score is false and no refiner has 'dense' among its inputs: it would do nothing."),
    ],
    ids=["unknown part", "circle", "names", "itself", "no setting", "unused part"],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(tmp_path: Path, entries: dict[str, Any], at: str, message: str) -> None:
    made = experiment(tmp_path, retrievers=entries)
    (first, *_) = fault_of(made)
    place, _, said = first.partition(": ")
    assert said.startswith(message)
    assert place.rpartition(":")[0] == place_of(made, at).rpartition(":")[0]


def test_a_sweep_may_vary_what_a_refiner_is_made_of(tmp_path: Path) -> None:
    entries = {
        "dense": {**DENSE, "score": False},
        "words": ENTRIES["words"],
        "best": {"kind": "mmr", "inputs": "dense"},
    }
    made = experiment(tmp_path, {"matrix": {"retrievers.best.inputs": ["dense", "words"]}}, retrievers=entries)
    settings, _ = settings_of(made.config())
    assert [(one.name, one.parts[0].entry) for one in settings] == [
        ("best-inputs-dense", "dense"), ("best-inputs-words", "words")
    ]  # fmt: skip


FILTERED = [{**QUERIES[0], "where": {"lang": "en"}}, {**QUERIES[1], "where_document": {"$contains": "soup"}}]
PHRASED = [{**QUERIES[0], "phrasings": ["baking time of rye bread"]}, *QUERIES[1:]]


def warnings_of(made: Experiment) -> dict[str, str]:
    return {warning.code: warning.message for warning in Run.of(made.config()).setting_warnings}


def test_filters_and_phrasings_that_no_setting_heeds_are_told(tmp_path: Path, capsys: Capture) -> None:
    entries = {**ENTRIES, "file": {"kind": "run_file", "path": "made.run", "top_k": 3}}
    made = experiment(tmp_path, retrievers=entries, queries=[*FILTERED, *QUERIES[2:]])
    (tmp_path / "made.run").write_text("rye Q0 storage.txt 1 1.0 made\n")
    message = (
        "queries with where or where_document in the labels: 2 of 4; hybrid, own search without these filters; a "
        "dense retriever over a collection heeds them."
    )
    assert warnings_of(made) == {"filters-not-heeded": message}
    assert message in ragtrial(capsys, "validate", made.file).err
    assert run(capsys, made, "--strict").code == 2
    made = experiment(tmp_path, queries=PHRASED)
    assert warnings_of(made) == {
        "phrasings-not-asked": "queries with phrasings in the labels: 1 of 4, and no setting asks them; a refiner of "
        "kind expand does."
    }
    asks = {**ENTRIES, "more": {"kind": "expand", "inputs": "own", "top_k": 3}}
    assert warnings_of(experiment(tmp_path, retrievers=asks, queries=PHRASED)) == {}


def test_commands_have_words_for_settings_without_chunks(tmp_path: Path, capsys: Capture) -> None:
    entries = {
        **ENTRIES,
        "file": {"kind": "run_file", "path": "made.run", "top_k": 3},
        "large": {"kind": "parent", "inputs": "own", "returns": "chunk", "chunker": {"kind": "document"}, "top_k": 3},
        "whole": {"kind": "parent", "inputs": "hybrid", "top_k": 3},
    }
    made = experiment(tmp_path, retrievers=entries)
    (tmp_path / "made.run").write_text("rye Q0 storage.txt 1 1.0 made\n")
    none = [
        "hybrid: no chunks of its own; it combines the results of dense, words.",
        "file: no chunks of its own.",
        "whole: no chunks of its own; it combines the results of hybrid.",
    ]
    validated = ragtrial(capsys, "validate", made.file)
    assert validated.code == 0
    rows = [line.split("  ")[0] for line in validated.out.splitlines()]
    start = rows.index("setting") + 1
    assert rows[start:] == ["dense of hybrid", "words of hybrid", "own", "large", *none]
    shown = ragtrial(capsys, "chunks", made.file, "-n", "0")
    assert shown.out.splitlines()[-3:] == none
    as_json = ragtrial(capsys, "chunks", made.file, "--setting", "file", "--json").json
    assert (as_json["settings"], as_json["without_chunks"]) == ([], ["file"])
    assert ragtrial(capsys, "chunks", made.file, "--setting", "file").out == f"{none[1]}\n"
    searched = ragtrial(capsys, "search", made.file, "not a labelled query", "--setting", "file")
    assert (searched.code, searched.out) == (0, "file: nothing found\n")


def test_validate_finds_what_a_run_would_refuse(tmp_path: Path, capsys: Capture) -> None:
    entries = {
        "part": {"kind": "custom", "function": "nowhere:find", "score": False},
        "whole": {"kind": "parent", "inputs": "part", "top_k": 3},
        "file": {"kind": "run_file", "path": "made.run", "top_k": 3},
        "words": {"kind": "bm25", "stop_words": "gone.txt", "top_k": 3},
    }
    made = experiment(tmp_path, retrievers=entries)
    (tmp_path / "made.run").write_text("rye Q0 no-such-document 1 1.0 made\n")
    checked, ran = ragtrial(capsys, "validate", made.file, "--json"), run(capsys, made, "--json")
    assert checked.code == ran.code == 2
    messages = [one["message"] for one in checked.json["errors"]]
    assert messages == [one["message"] for one in ran.json["errors"]]
    for said in ("nowhere", "no-such-document", "gone.txt"):
        assert any(said in one["message"] + one["file"] for one in checked.json["errors"]), json.dumps(messages)
