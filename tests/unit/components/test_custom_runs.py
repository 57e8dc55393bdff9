"""Custom retrievers in experiments: one that fails leaves the others alone; what was answered is not asked again."""

from pathlib import Path

import pytest

from custom_search import SEARCH, asked
from experiments import QUERIES, Experiment, write_experiment
from ragtrial.cli.outcome import run as command
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.run import Run
from ragtrial.scoring.rescore import rescore

pytestmark = pytest.mark.slow


def experiment(folder: Path, **options: object) -> Experiment:
    mine = {"kind": "custom", "function": "my_search:search", "top_k": 3, **options}
    made = write_experiment(folder, retrievers={"dense": {"kind": "dense", "top_k": 3}, "mine": mine})
    (folder / "my_search.py").write_text(SEARCH)
    return made


def test_a_failed_setting_keeps_its_answers_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = experiment(tmp_path, batch_size=1)
    (tmp_path / "trouble").write_text("raise")
    assert command(["run", str(made.file), "-q"]) == 4
    assert "my_search:search raised ConnectionError for query 'Which soup is blended until it is smooth?': 429" in (
        capsys.readouterr().err
    )
    (tmp_path / "trouble").unlink()
    before = len(asked(tmp_path))
    assert command(["run", str(made.file), "-q"]) == 0
    assert [query for call in asked(tmp_path)[before:] for query in call] == [
        "Which soup is blended until it is smooth?", "Where do you grow coffee?"
    ]  # fmt: skip


def test_paths_of_files_in_the_corpus_score_as_their_ids(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    by_id = run_experiment(made.config()).setting("mine").scores
    by_path = SEARCH.replace('path.relative_to(HERE / "documents").as_posix()', "str(path)")
    (tmp_path / "my_search.py").write_text(by_path)
    before = len(asked(tmp_path))
    assert by_path != SEARCH
    assert run_experiment(made.config()).setting("mine").scores == by_id
    assert len(asked(tmp_path)) > before


def test_a_skipped_query_is_in_no_mean_and_the_same_command_asks_for_it_alone(tmp_path: Path) -> None:
    made = experiment(tmp_path, on_error="skip")
    (tmp_path / "trouble").write_text("raise")
    first = run_experiment(made.config())
    assert first.setting("mine").scores["recall@3"].n == 2
    assert first.setting("dense").scores["recall@3"].n == 3
    assert {"first-skipped", "skipped"} <= {one.code for one in first.warnings}
    (tmp_path / "trouble").unlink()
    before = len(asked(tmp_path))
    again = run_experiment(made.config())
    assert asked(tmp_path)[before:] == [["Which soup is blended until it is smooth?"]]
    assert again.setting("mine").scores["recall@3"].n == 3


def test_a_skipped_query_is_in_no_mean_of_sizes_either(tmp_path: Path, minilm_folder: Path) -> None:
    """Its hits are not none of 0 tokens: they are not known."""
    made = experiment(tmp_path, on_error="skip")
    settings = ("evaluators.budget=50", f"embedder.tokenizer_model={minilm_folder}")
    (tmp_path / "trouble").write_text("raise")
    some = run_experiment(made.config(*settings))
    assert some.setting("mine").counts["queries_skipped"] == 1
    made.write_queries([query for query in QUERIES if "smooth" not in query["text"]])
    answered = run_experiment(made.config(*settings))
    assert some.setting("mine").context == answered.setting("mine").context
    again = rescore(some, overrides=["evaluators.relevance_threshold=2"])
    budgets = [report.setting("mine").budget for report in (some, again, answered)]
    fitting = [(one.hits, one.queries_not_full) for one in budgets if one is not None]
    assert fitting == [fitting[0]] * 3
    assert fitting[0][1] == 0, "what was not answered is not a ranking that ends too early"


def test_a_plan_says_that_skipped_questions_will_be_asked_again(tmp_path: Path) -> None:
    """Of the setting, and of one that is made of it; not of one that has nothing to do with it."""
    made = experiment(tmp_path, on_error="skip")
    (tmp_path / "trouble").write_text("raise")
    both = ("retrievers.both={kind: fusion, inputs: [mine, dense]}",)
    run_experiment(made.config(*both))
    planned = Run.of(made.config(*both)).dry_run()
    why = "questions that were skipped will be asked again: 1"
    assert [(node.what, node.why, node.amount.to_do) for node in planned.to_do] == [
        ("mine (custom)", why, 1),
        ("both (fusion)", why, 1),
    ]
    (tmp_path / "trouble").unlink()
    run_experiment(made.config(*both))
    assert Run.of(made.config(*both)).dry_run().to_do == []


def test_a_secret_among_the_options_is_in_nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "hunter2hunter2")
    refusing = (
        "def search(queries, top_k, token):\n"
        "    if 'smooth' in queries[0]:\n"
        "        raise ValueError('refused: ' + token)\n"
        "    return [['oven.txt']]\n"
    )
    mine = {"function": "refusing:search", "options": {"token": "${SEARCH_TOKEN}"}}
    retrievers = {"mine": {"kind": "custom", **mine, "batch_size": 1, "on_error": "skip", "top_k": 3}}
    made = write_experiment(tmp_path, retrievers=retrievers)
    (tmp_path / "refusing.py").write_text(refusing)
    report = run_experiment(made.config())
    (told,) = (warning.message for warning in report.warnings if warning.code == "first-skipped")
    assert told.endswith("refused: ${SEARCH_TOKEN}")
    files = [path for folder in ("results", "workspace") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert [str(path) for path in files if b"hunter2hunter2" in path.read_bytes()] == []


def test_a_variable_in_a_list_or_a_sweep_is_kept_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names say nothing of secrets, so nothing else hides the values."""
    monkeypatch.setenv("TENANT", "hunter2hunter2")
    monkeypatch.setenv("REGION", "hunter3hunter3")
    options = {"tenants": ["${TENANT}", {"of": ["${TENANT}"]}]}
    mine = {"kind": "custom", "function": "found:search", "options": options}
    swept = ["${REGION}", "south", {"deep": ["${REGION}"]}]
    made = write_experiment(
        tmp_path, retrievers={"mine": {**mine, "top_k": 3}}, sweep={"matrix": {"retrievers.mine.options.region": swept}}
    )
    (tmp_path / "found.py").write_text(
        "def search(queries, top_k, **more):\n    return [['oven.txt']] * len(queries)\n"
    )
    report = run_experiment(made.config())
    assert [setting.name for setting in report.settings] == [
        "mine-region-REGION",
        "mine-region-south",
        "mine-region-empty",
    ]
    assert report.settings[0].parameters["retriever"]["options"] == {**options, "region": "${REGION}"}
    key = "retrievers.mine.options.region"
    assert [setting.parameters["values"][key] for setting in report.settings] == swept
    text = "".join(path.read_text("latin-1") for path in report.folder.rglob("*.json"))
    assert "hunter" not in text


def test_a_setting_that_finds_nothing_for_any_query_is_said_to_unless_it_could_not_be_asked(tmp_path: Path) -> None:
    mine = {"kind": "custom", "function": "idle:search", "batch_size": 1, "on_error": "skip", "top_k": 3}
    made = write_experiment(tmp_path, retrievers={"mine": mine})
    failing = "    assert 'rye' not in queries[0]\n"
    (tmp_path / "idle.py").write_text(f"def search(queries, top_k):\n{failing}    return [[] for _ in queries]\n")
    codes = {one.code for one in run_experiment(made.config()).warnings}
    assert codes & {"skipped", "nothing-found"} == {"skipped"}
    (tmp_path / "idle.py").write_text("def search(queries, top_k):\n    return [[] for _ in queries]\n")
    report = run_experiment(made.config())
    assert [one.message for one in report.warnings if one.code in ("nothing-found", "short")] == [
        f"mine: found nothing for any query ({len(report.queries)} queries); look at what it searches."
    ]
