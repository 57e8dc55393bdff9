"""Pages with short tests: their commands run, their configs load, and their lists are those of the code."""

import re
import shlex
import typing
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import traced_search
from corpora import write_files
from drafting_double import DRAFTING
from endpoint_double import EndpointDouble
from experiments import DOCUMENTS, QUERIES, write_experiment
from pages import assert_prints_what_it_shows, commands, fenced, replace_sections
from ragtrial import load_config, run_experiment
from ragtrial.cli.group import group
from ragtrial.cli.questions_command import command as questions
from ragtrial.comparison.history import AFTER_STEP
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.components.embedders.model_files import Precision
from ragtrial.labelling.drafting import COPIED, DRAFT_PLACES, PASSAGE_SIZE, STYLES
from ragtrial.records import DRAFTED, NOT_REVIEWED, UNANSWERABLE
from scripts import run_script
from small_experiment import Capture, small_experiment, succeeded

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_commands_of_comparing_two_runs_print_what_the_page_shows(tmp_path: Path) -> None:
    page = DOCS / "compare-two-runs.md"
    run_script("ragtrial demo", tmp_path)
    (shown,) = fenced(page, "text")
    assert shown in run_script("".join(fenced(page, "sh")), tmp_path / "ragtrial-demo").out


def test_the_commands_of_the_page_of_scores_run_on_a_table_like_its_own(tmp_path: Path) -> None:
    page = DOCS / "scores.md"
    (head, *_) = fenced(page, "csv")[0].splitlines()
    rows = [
        f"How is {place}?,{system},faithfulness,{more + place % 7 / 10}"
        for place in range(20)
        for system, more in (("before", place % 3 / 100), ("after", 0.3))
    ]
    (tmp_path / "scores.csv").write_text("\n".join([head, *rows]))
    first, more = fenced(page, "sh")
    assert "better" in run_script(first, tmp_path).out
    run_script(more, tmp_path)
    assert {"junit.xml", "scores.html"} <= {path.name for path in tmp_path.iterdir()}
    exec("".join(fenced(page, "python")), {})


def test_the_history_page_says_what_its_commands_print_and_what_levels_are(tmp_path: Path) -> None:
    page = (DOCS / "history.md").read_text(encoding="utf-8")
    small_experiment(tmp_path)
    workflow = yaml.safe_load(next(code for code in fenced(DOCS / "history.md", "yaml") if code.startswith("name:")))
    steps = [step["run"] for step in workflow["jobs"]["history"]["steps"] if "ragtrial" in step.get("run", "")]
    commands = ["ragtrial run experiment.yaml -q --no-latency", *fenced(DOCS / "history.md", "sh"), *steps]
    assert run_script("\n".join(commands), tmp_path).out.splitlines()[-1] == "public/index.html"
    for number, share in ((1, "1.9%"), (2, "0.7%"), (AFTER_STEP + 1, "0.17%"), (10, "0.06%")):
        assert f"{100 * Procedure().with_alpha_spending(number).level:.{len(share) - 3}f}%" == share
        assert share in page


PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_TYPED = re.compile(r"(?:`|^(?:\$ )?(?:\w+=\S+ )?)ragtrial ([a-z][^`\n]*)", re.MULTILINE)
_COMMANDS = re.compile(r"^```(?:sh|console)\n.*?^```$|`ragtrial [^`\n]*`", re.MULTILINE | re.DOTALL)


def test_every_command_on_a_page_exists_and_has_the_options_that_are_written() -> None:
    codes = [code for page in PAGES for code in _COMMANDS.findall(page.read_text(encoding="utf-8"))]
    typed = {line for code in codes for line in _TYPED.findall(code)}
    assert len(typed) > 150
    for line in typed:
        words = list(takewhile(lambda word: word not in ("|", ">"), shlex.split(line, comments=True)))
        command = typing.cast("click.Command | None", group)
        while words and isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, line
        if not isinstance(command, click.Group):
            command.make_parser(click.Context(command, **group.context_settings)).parse_args(words)


@pytest.mark.slow
def test_python_on_pages_prints_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in ("pandas", "scoring"):
        assert_prints_what_it_shows(DOCS / f"{page}.md")
    run_script("ragtrial demo -q", tmp_path)
    monkeypatch.chdir(tmp_path / "ragtrial-demo")
    assert_prints_what_it_shows(DOCS / "python.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_a_page_imports_public_modules_alone(page: Path) -> None:
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^\s*(?:from|import) (ragtrial[\w.]*)", "\n".join(blocks), re.MULTILINE)) <= {"ragtrial"}


NO_SECTIONS = {"ci.md", "data-sets.md", "history.md"}
"""A workflow, and a separate file. Another test has the examples of the reference, config-*.md."""


def test_every_block_of_yaml_fits_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for variable in ("PGVECTOR_URL", "QDRANT_URL", "PGPASSWORD", "MILVUS_TOKEN"):
        monkeypatch.setenv(variable, "postgresql://localhost/database")
    succeeded(capsys, "init", "project")
    written = Path("project/experiment.yaml").read_text(encoding="utf-8")
    for page in PAGES:
        no_sections = page.name in NO_SECTIONS or page.name.startswith("config-")
        for number, block in enumerate([] if no_sections else fenced(page, "yaml")):
            config = tmp_path / "project" / f"{page.stem}-{number}.yaml"
            config.write_text(written, encoding="utf-8")
            replace_sections(config, block)
            assert load_config(config).retrievers


def test_the_commands_of_the_page_on_data_sets_print_what_it_shows(shared_data: Path, tmp_path: Path) -> None:
    page = DOCS / "data-sets.md"
    shared, scifact = fenced(page, "yaml")
    files = {
        "retrievers": shared + "latency: false\n",
        "scifact": scifact,
        "cranfield": scifact.replace("scifact", "cranfield"),
    }
    write_files(tmp_path, {f"{name}.yaml": text for name, text in files.items()})
    for name in ("scifact", "cranfield"):
        (tmp_path / name).symlink_to(shared_data / name)
    (shown,) = fenced(page, "text")
    assert shown in run_script("".join(fenced(page, "sh")), tmp_path, COLUMNS="160").out


def test_the_pages_on_questions_and_speed_say_what_the_code_says() -> None:
    page = (DOCS / "questions.md").read_text(encoding="utf-8")
    assert f"at most {PASSAGE_SIZE:,} characters" in page
    assert f"at least {COPIED:.0%} of its content words" in page
    assert [
        name for name in (*STYLES, *DRAFT_PLACES, DRAFTED, NOT_REVIEWED, UNANSWERABLE) if f"`{name}`" not in page
    ] == []
    options = {name for one in questions.params if isinstance(one, click.Option) for name in one.opts}
    assert set(re.findall(r"^\| `(--[a-z-]+)`", page, re.MULTILINE)) <= options
    page = (DOCS / "embedding-speed.md").read_text(encoding="utf-8")
    (comment,) = re.findall(r"precision: \w+ +# (.*)", page)
    assert comment.split(" | ") == list(typing.get_args(Precision))


def test_the_commands_of_the_page_on_questions_run(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    with EndpointDouble(default=DRAFTING) as double:
        for command in commands(DOCS / "questions.md"):
            if command[0] == "questions":
                url = "http://localhost:8000/v1"
                made = succeeded(capsys, *(double.url if word == url else word for word in command))
    assert "next: ragtrial label drafts.json" in made.out


_SEARCH = (DOCS / "search.md").read_text(encoding="utf-8")
OVERRIDES = [
    "search.settings=10",
    *(f"search.{name}={value}" for name, value in re.findall(r"`(held_out|within|baseline): ([^`]+)`", _SEARCH)),
    *(f"search={text}" for text in re.findall(r"^```yaml\nsearch: (.*)\n```$", _SEARCH, re.MULTILINE)),
]


@pytest.mark.parametrize("override", OVERRIDES)
def test_the_config_of_a_search_and_each_option_that_the_page_shows_are_valid(override: str) -> None:
    config, *_ = fenced(DOCS / "search.md", "yaml")
    Path("experiment.yaml").write_text(config.replace(", score: false", ""), encoding="utf-8")
    assert load_config("experiment.yaml", [override]).search


def test_the_config_of_the_page_on_sparse_and_late_models_runs(
    tmp_path: Path, tiny_model: Path, sparse_model: Path, late_model: Path
) -> None:
    models = {"sentence-transformer": tiny_model, "sparse": sparse_model, "late": late_model, "late_rerank": late_model}

    def local(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = {name: local(part) for name, part in value.items()}
        return {**made, "model": str(models[made["kind"]])} if "model" in made else made

    write_experiment(tmp_path, DOCUMENTS, QUERIES)
    embedder = {"kind": "sentence-transformer", "model": "tiny"}
    (block,) = fenced(DOCS / "sparse-and-late.md", "yaml")
    config = {"embedder": embedder, "latency": False, "store": {"kind": "exact"}, **yaml.safe_load(block)}
    Path("page.yaml").write_text(yaml.safe_dump(local(config)), encoding="utf-8")
    report = run_experiment(load_config("page.yaml"))
    assert {one.name for one in report.settings} == {"dense", "bm25", "splade", "colbert", "reranked", "hybrid"}
    assert not report.failures


def test_the_commands_of_the_page_on_traces_run_up_to_labelling(tmp_path: Path, capsys: Capture) -> None:
    page, spans = DOCS / "traces.md", ROOT / "tests" / "support" / "traces" / "langchain-openinference.json"
    write_files(tmp_path, {f"documents/{name}": text for name, text in traced_search.DOCUMENTS.items()})
    (config,) = fenced(page, "yaml")
    write_files(tmp_path, {"experiment.yaml": config, "spans.jsonl": spans.read_text(encoding="utf-8")})
    sample, run, pool, label, score, *_ = commands(page)
    for command in (sample, run, [*pool[:-1], "5"], score):
        succeeded(capsys, *command)
    assert label == ["label", "worklist.json"]
    assert Path("worklist.json").exists()
