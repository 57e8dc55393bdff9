"""Pages with short tests: their commands run, their configs load, and their lists are those of the code."""

import json
import re
import shlex
import shutil
import typing
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import traced_search
from asked import workplace
from corpora import write_files
from drafting_double import DRAFTING
from endpoint_double import EndpointDouble
from experiments import DOCUMENTS, QUERIES, write_experiment
from pages import assert_prints_what_it_shows, blocks, commands, fastest_precision, fenced, replace_sections
from ragtrial import load_config, run_experiment
from ragtrial.cli.group import COMMANDS, group
from ragtrial.cli.label_command import command as label
from ragtrial.cli.questions_command import command as questions
from ragtrial.comparison.history import AFTER_STEP
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.components.contextual_text import ContextOptions
from ragtrial.components.embedders.model_files import Precision
from ragtrial.labelling.drafting import COPIED, DRAFT_PLACES, PASSAGE_SIZE, STYLES
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import read_worklist
from ragtrial.records import DRAFTED, NOT_REVIEWED, UNANSWERABLE
from scripts import run_block, run_script
from small_experiment import CONFIG, DOCUMENTS as SMALL, HASHING, LABELS, Capture, ragtrial, small_experiment, succeeded
from terminals import in_terminal
from worklists import post, start_page

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


@pytest.mark.slow
def test_the_commands_of_the_page_on_judging_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """With a double that drafts, and no model."""
    judging = re.findall(r"^ragtrial (.*)$", (DOCS / "judge.md").read_text(encoding="utf-8"), re.MULTILINE)
    succeeded(capsys, "demo", "sample")
    monkeypatch.chdir(tmp_path / "sample")
    assert [command.split()[0] for command in judging] == ["questions", "label", "run", "judge", "pool", "compare"]
    config = Path("experiment.yaml").read_text(encoding="utf-8")
    stored, searched = "dense: {kind: run_file, path: dense.trec.gz}", "dense: {kind: dense}"
    assert stored in config  # which has no hits for new questions
    own = 'embedder: {kind: custom, function: "hashing:embed"}\nstore: {kind: exact}\n'
    Path("hashing.py").write_text(HASHING, encoding="utf-8")
    Path("experiment.yaml").write_text(own + config.replace(stored, searched), encoding="utf-8")
    with EndpointDouble(default=DRAFTING) as double:
        made = ragtrial(capsys, *judging[0].replace("http://localhost:8000/v1", double.url).split())
    assert made.code == 0, made.err
    with Session(Path(judging[1].split()[1]), who="ada") as session:
        while session.item is not None:
            session.keep()
        session.save()
    drafted = len(session.answers.given)
    assert 30 <= drafted <= 40
    for command in judging[2:5]:
        succeeded(capsys, *command.split())
    known = {query["id"]: {str(one["doc"]): one.get("relevance", 1) for one in query["relevant_docs"]}
             for query in json.loads(Path("prompt_queries.json").read_text())["queries"]}  # fmt: skip
    items = read_worklist("people.json").items
    with Session(Path("people.json"), who="ada") as session:  # people grade as the labels of the sample do
        while (number := session.answers.current) is not None:
            session.grade(known[items[number].query].get(items[number].doc, 0))
        session.save()
    succeeded(capsys, "rescore", "latest", "--labels", "experiment.yaml")
    compared = succeeded(capsys, *judging[5].split(), "--json")
    judge = compared.json["judge"]
    assert (judge["people"], judge["judged"], judge["drawn_at_random"]) == (20, 62 + drafted, True)
    succeeded(capsys, "report", "latest", "--judge", "judgments.llm.jsonl", "-o", "judged.html")
    assert "mean scores minus people" in Path("judged.html").read_text(encoding="utf-8")


CUSTOM = DOCS / "custom-retrievers.md"


def test_the_retrievers_of_the_page_on_custom_ones_run_in_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    files = {f"documents/{name}": text for name, text in SMALL.items()}
    write_files(
        tmp_path, {**files, "documents/warranty.md": "The warranty is valid for six months. Batteries are covered."}
    )
    assert_prints_what_it_shows(CUSTOM)
    settings = re.findall(r"^```yaml\nretrievers:\n(.*?)^```$", CUSTOM.read_text(encoding="utf-8"), re.M | re.S)
    mine, _, libraries, _ = settings
    config = CONFIG + mine + libraries
    code = "\n".join(block.code for block in blocks(CUSTOM) if not block.shown)
    function = next(block.code for block in blocks(CUSTOM) if block.shown).rpartition("print(")[0]
    own = {"my_search.py": function + code, "hashing.py": HASHING, "prompt_queries.json": json.dumps(LABELS)}
    write_files(tmp_path, {**own, "config.yaml": config.replace("latency: false\n", "") + "latency: false\n"})
    report = run_experiment(load_config(tmp_path / "config.yaml"))
    assert [one.name for one in report.settings] == ["dense", "mine", "langchain", "llama-index", "haystack"]
    assert report.setting("mine").scores["precision@1"].mean == 1.0
    assert report.setting("haystack").scores["hit_rate@1"].mean == 1.0


def test_a_hit_of_each_shape_on_the_page_on_custom_retrievers_is_one(tmp_path: Path) -> None:
    place = workplace(tmp_path, {"warranty.md": "Batteries are covered ..." + "x" * 500})
    cells = re.findall(r"^\| `([\"({].*?)` \|", CUSTOM.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(cells) == 4
    for cell in cells:
        assert place.found(f"return [[{cell}]]")[0][0].startswith("warranty.md")


CONTEXTUAL = DOCS / "contextual-text.md"
FEW = [
    f"account-and-app/{name}.md"
    for name in ("accessibility", "energy-reports", "larkfield-plus-guide", "release-notes-6-2", "two-factor-set-up")
]
"""The part of the sample data that the page is run on: it shows one document, which is there."""


def project_of_few(folder: Path) -> Path:
    """A project of `ragtrial init` over a few documents and the labels of these, with the config of the page."""
    for name in FEW:
        target = folder / "data" / "support" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "data" / "support" / name, target)
    labels = json.loads((ROOT / "prompt_queries.json").read_text(encoding="utf-8"))
    for query in labels["queries"]:
        query["relevant_docs"] = [doc for doc in query["relevant_docs"] if doc["doc"] in FEW]
    (folder / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    (init,) = re.findall(r"`(ragtrial init [^`]*)`, then `cd support`", CONTEXTUAL.read_text(encoding="utf-8"))
    run_script(init, folder)
    config = folder / "support" / "experiment.yaml"
    embedder = {**yaml.safe_load(config.read_text(encoding="utf-8"))["embedder"], "precision": fastest_precision()}
    replace_sections(config, fenced(CONTEXTUAL, "yaml")[1], embedder=embedder, latency=False)
    return folder / "support"


def test_every_command_on_contextual_text_prints_what_the_page_shows(tmp_path: Path, shared_workspace: Path) -> None:
    project = project_of_few(tmp_path)
    printed = ""
    for block in blocks(CONTEXTUAL, "sh|python"):
        out = run_block(block, project, COLUMNS="100", RAGTRIAL_WORKSPACE=str(shared_workspace))
        assert block.shown in ("", out), out
        printed += out
    assert "  + From an article on the app and the account." not in printed
    assert "  + Accessibility in the Larkfield app From an article on the app and the account.\n" in printed
    results = project / "results" / "support"
    latest = (results / "latest").read_text(encoding="utf-8").strip()
    report = json.loads((results / latest / "report.json").read_text(encoding="utf-8"))
    found = {setting["name"]: setting for setting in report["settings"]}
    assert set(found) == {"plain", "headings", "headings-sentences"}
    assert found["plain"]["parameters"]["context"]["prefixes"] == "prefixes.jsonl"
    assert found["headings-sentences"]["parameters"]["context"]["sentences"] == 1
    assert min(setting["scores"]["ndcg@10"]["mean"] for setting in found.values()) > 0.6
    assert len({setting["fingerprint"] for setting in found.values()}) == 3
    counts = [setting["counts"] for setting in found.values()]
    assert len({one["chunks"] for one in counts}) == 1
    assert [one["chunks_too_long"] for one in counts] == [0, 0, 0]


def test_the_defaults_of_contextual_text_are_those_of_its_page() -> None:
    assert yaml.safe_load(fenced(CONTEXTUAL, "yaml")[0])["context"] == ContextOptions().model_dump()


LABELLING = (DOCS / "labelling.md").read_text(encoding="utf-8").partition("\n## Labelling a worklist")[2]
PATH = LABELLING[LABELLING.index("## From no labels to a verdict") :]


def shell_commands(text: str) -> list[list[str]]:
    """The commands in blocks of shell, in their order."""
    found = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for block in found for line in block.splitlines()]


def label_on_page(arguments: list[str]) -> str:
    """Grade everything on the page of a command with 1, and finish; what the command says then."""
    process, url = start_page(*arguments)
    state = {"revision": 0, "total": 1, "graded": 0}
    while state["graded"] < state["total"]:
        state = post(url, "grade", revision=state["revision"], grade=1)["state"]
    assert "error" not in post(url, "finish", revision=state["revision"])
    return process.communicate(timeout=60)[0]


def test_the_way_to_a_verdict_runs(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("latency", "  words: {kind: bm25, top_k: 3}\nlatency"))
    (tmp_path / "prompt_queries.json").unlink()
    said = {}
    for arguments in shell_commands(PATH):
        if "--label" in arguments:
            with in_terminal(*arguments) as typed:
                typed.type(("hit 1, 0 graded:", "2"), ("hit 2, 1 graded:", "q"))
                typed.await_text("1 judgment written")
                assert typed.ended() == 0
        elif arguments[0] == "label":
            said["label"] = label_on_page(arguments)
        else:
            made = succeeded(capsys, *arguments)
            said[arguments[0]] = made.out
    assert list(said) == ["run", "pool", "label", "rescore", "compare"]
    assert "next: ragtrial label worklist.json" in said["pool"]
    shown = re.search(r"^(\d) of \1 graded\n.*: (\d) judgments written", said["label"].strip(), re.DOTALL)
    assert shown, said["label"]
    labels = json.loads((tmp_path / "prompt_queries.json").read_text())["queries"]
    assert sum(len(query["relevant_docs"]) for query in labels) == 2 + int(shown[2])


def test_every_option_and_key_that_is_named_is_there() -> None:
    options = {name for option in label.params for name in [*option.opts, *option.secondary_opts]}
    named = set(re.findall(r"`(--[a-z-]+)", LABELLING[: LABELLING.index("## From no labels")]))
    assert named <= options
    assert {"--highest", "--skipped", "--port", "--no-browser", "--labels", "--who"} <= named


def test_the_tutorial_runs(tmp_path: Path) -> None:
    """All but the installation: init, labels from a CSV, three retrievers, the comparison and the page."""
    install, start, convert, compare = fenced(DOCS / "tutorial.md", "sh")
    assert "pip install -c constraints/cpu.txt" in install
    (table,) = fenced(DOCS / "tutorial.md", "text")
    (retrievers,) = fenced(DOCS / "tutorial.md", "yaml")
    run_script(start, tmp_path, COLUMNS="90")
    trial = tmp_path / "trial"
    (trial / "questions.csv").write_text(table, encoding="utf-8")
    assert "experiment.yaml is valid" in run_script(convert, trial, COLUMNS="90").out
    config = trial / "mine" / "experiment.yaml"
    text = config.read_text(encoding="utf-8")
    replaced = re.sub(r"^retrievers:.*\n(?:(?: .*)?\n)+", retrievers, text, flags=re.MULTILINE)
    config.write_text(replaced, encoding="utf-8")
    assert "bm25-titles" in run_script(compare, config.parent, COLUMNS="90").out
    assert (config.parent / "report.html").is_file()


def test_the_page_on_the_command_line_has_every_command_and_its_options_exist() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    head, _, options = text.partition("## Common options")
    named = {name for row in re.findall(r"^\| (`.*?) \|", head, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == set(COMMANDS)
    known: set[str] = set()
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        known |= {spelling for one in command.params for spelling in one.opts}
    assert set(re.findall(r"`(-{1,2}[a-z-]+)", options.partition("## Exit codes")[0])) <= known


@pytest.mark.parametrize("page", ["index.md", "tutorial.md"])
def test_a_first_page_is_short(page: str) -> None:
    assert len((DOCS / page).read_text(encoding="utf-8").split()) < 800
