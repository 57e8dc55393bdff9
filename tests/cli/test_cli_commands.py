"""What the commands beside ``run`` answer: init, validate, show, search, list, schema."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpora import write_files
from ragtrial.config import load_config
from ragtrial.report.model import load_report
from ragtrial.views.report_tables import show_command
from small_experiment import BROKEN, CONFIG, Capture, ragtrial, refused, small_experiment, succeeded

Golden = Callable[[str, str], None]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    small_experiment(tmp_path)
    return Path("experiment.yaml")


def test_init_gives_an_experiment_that_validates_and_runs_as_it_is(tmp_path: Path, capsys: Capture) -> None:
    made = ragtrial(capsys, "init", "trial")
    assert (made.code, made.err) == (0, "")
    lines = made.out.splitlines()
    written = [line.removeprefix("wrote ") for line in lines if line.startswith("wrote ")]
    assert sorted(written) == sorted(
        path.relative_to(tmp_path).as_posix() for path in (tmp_path / "trial").rglob("*") if path.is_file()
    )
    assert lines[-1] == "Now: cd trial && ragtrial run"
    succeeded(capsys, "validate", "trial/experiment.yaml", "--strict")
    ran = succeeded(capsys, "run", "trial/experiment.yaml", "--json")
    settings = {setting["name"]: setting["scores"] for setting in ran.json["settings"]}
    assert settings.keys() == {"dense", "bm25", "hybrid"}
    # Ten hits of six documents cannot be had, and a store must be the default that the config reference names.
    assert not {"short", "latency"} & {warning["code"] for warning in ran.json["warnings"]}
    assert load_config("trial/experiment.yaml").store.kind == "chroma"
    means = {name: scores["ndcg@10"]["mean"] for name, scores in settings.items()}
    assert len(set(means.values())) == 3
    assert means["dense"] > 0.9
    assert {scores["ndcg@10"]["n"] for scores in settings.values()} == {10}
    found = ragtrial(capsys, "search", "trial/experiment.yaml", "how long is my battery covered", "--json")
    assert found.json["hits"][0]["doc"] == "warranty.md"
    show = ("show", "--results", "trial/results", "--query", "q1", "--prompt", "--setting", "dense")
    prompts = ragtrial(capsys, *show, "--json")
    assert (prompts.json[0]["setting"], prompts.json[0]["query"]) == ("dense", "q1")


def test_init_with_own_documents_and_questions_runs_as_it_is(tmp_path: Path, capsys: Capture) -> None:
    notes = {"returns.md": "Send it back within 30 days.\n", "hub/reset.md": "Hold the ring until it turns white.\n"}
    table = "Question,Answer\nreturn?,within 30 days\nreset?,turns white\nlost?,nowhere at all\n"
    write_files(tmp_path, {**{f"my notes/{name}": text for name, text in notes.items()}, "mine.csv": table})
    made = succeeded(capsys, "init", "trial", "--corpus", "my notes", "--labels", "mine.csv", "--json")
    names = ("experiment.yaml", "prompt_queries.json", "answers_not_found.md")
    assert made.json["wrote"] == [f"trial/{name}" for name in names]
    assert made.json["labels"]["counts"] == {"exact": 2, "lost": 1}
    config = load_config("trial/experiment.yaml")
    assert (config.experiment, config.evaluators.unit, next(iter(config.retrievers))) == ("trial", "span", "bm25")
    ran = succeeded(capsys, "run", "trial", "--set", "retrievers={bm25: {kind: bm25}}", "--json")
    assert ran.json["settings"][0]["scores"]["recall@10"] == {"mean": 1.0, "n": 2}


def test_init_writes_answers_that_are_lost(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "question,answer\nlost?,nowhere at all\nback?,Send it back within thirty days\n"
    write_files(tmp_path, {"my notes/returns.md": "Send it back within 30 days.\n", "mine.csv": answers})
    made = succeeded(capsys, "init", "trial", "--corpus", "my notes", "--labels", "mine.csv")
    assert "wrote trial/answers_not_found.md: 2 answers were not found; it says how to correct each" in made.out
    lost_file = "answers_not_found.md, next to the labels, has"
    assert lost_file in ragtrial(capsys, "validate", "trial").err
    page = (tmp_path / "trial" / "answers_not_found.md").read_text("utf-8")
    lost, near = page.split("## ")[1:]
    assert lost.startswith("lost?\n\nmine.csv:2: 'nowhere at all' of query 'q1' is in no document (1 document).\n")
    assert "No text is similar" in lost
    assert "mine.csv:3: " in near
    assert "The nearest is in 'returns.md': 'Send it back within 30 days.'." in near
    (tmp_path / "mine.csv").write_text(answers.replace("thirty", "30"), "utf-8")
    monkeypatch.chdir(tmp_path / "trial")
    (command,) = (line.split() for line in page.splitlines() if line.startswith("    ragtrial "))
    converted = succeeded(capsys, *command[1:])
    assert "wrote prompt_queries.json: 2 questions with 1 label\n" in converted.out
    succeeded(capsys, "validate")
    assert Path("answers_not_found.md").read_text("utf-8") == page
    (tmp_path / "mine.csv").write_text("question,answer\nback?,Send it back within 30 days\n", "utf-8")
    assert succeeded(capsys, *command[1:]).out.endswith(
        "removed answers_not_found.md: all answers are found\n\nNext: ragtrial run\n"
    )
    assert not Path("answers_not_found.md").exists()
    assert lost_file not in ragtrial(capsys, "validate").err
    Path("answers_not_found.md").write_text("Notes about other answers.", "utf-8")
    succeeded(capsys, *command[1:])
    assert Path("answers_not_found.md").read_text("utf-8") == "Notes about other answers."


def test_init_advises_to_correct_the_name_of_a_document(tmp_path: Path, capsys: Capture) -> None:
    table = "question,answer,source\nbroth?,,hub/sop.md\nbread?,,zzzz\nchanged?,not there,zzzz\n"
    write_files(tmp_path, {"notes/hub/soup.md": "Blend the soup.\n", "mine.csv": table})
    made = succeeded(capsys, "init", "trial", "--corpus", "notes", "--labels", "mine.csv")
    assert "wrote trial/answers_not_found.md: 3 answers were not found; it says how to correct each" in made.out
    near, far, passage = (tmp_path / "trial" / "answers_not_found.md").read_text("utf-8").split("## ")[1:]
    assert near.endswith("Did you mean 'hub/soup.md'?\n\nCorrect the name of the document in mine.csv.\n\n")
    assert far.endswith(
        "Correct the name of the document in mine.csv. It is the path below the folder of documents, such as "
        "'hub/soup.md'.\n\n"
    )
    assert "Correct the name" not in passage


def test_without_any_label_init_and_run_say_that_nothing_will_be_scored(tmp_path: Path, capsys: Capture) -> None:
    write_files(tmp_path, {"notes/a.md": "Text.\n", "q.csv": "question,answer\nlost?,nowhere at all\nmoon?,\n"})
    made = succeeded(capsys, "init", "mine", "--corpus", "notes", "--labels", "q.csv")
    assert "No question has a label, so no setting can be scored. Correct the answers in q.csv" in made.out
    assert made.out.splitlines()[-1] == 'Now: cd mine && ragtrial search experiment.yaml "a question" --label'
    ran = ragtrial(capsys, "run", "mine", "--set", "retrievers={a: {kind: bm25}, b: {kind: bm25, k1: 2}}")
    first = ran.err.splitlines()
    asked = next(position for position, line in enumerate(first) if line.startswith("No question in "))
    assert not any(line.startswith("retrieval") for line in first[:asked])
    (report,) = tmp_path.glob("mine/results/*/*/report.json")
    refused(capsys, "compare", report.parent, says="label answers, for example with `ragtrial search CONFIG")


def test_init_says_what_the_first_run_takes(tmp_path: Path, capsys: Capture) -> None:
    """By the size of the documents: how long that takes, nobody knows before the model has embedded some."""
    lines = "".join(f"The {number}th line of a document of some size.\n" for number in range(2_000))
    write_files(tmp_path, {"notes/a.md": lines, "q.csv": "question,answer\nwhich?,The 7th line\n"})
    made = succeeded(capsys, "init", "first try!", "--corpus", "notes", "--labels", "q.csv")
    assert f"embeds {len(lines) / 1e6:.1f} MB of text and says how long that takes" in made.out
    assert load_config("first try!/experiment.yaml").experiment == "first-try-"


@pytest.mark.parametrize(("rows", "unit"), [
    (["which?,,a.md"], "document"), (["which?,,a.md", "what?,Text,"], "document"), (["what?,Text,"], "span"),
    (["which?,,a.md", *[f"{number}?,Text," for number in range(20)]], "span"),
])  # fmt: skip
def test_init_scores_documents_where_many_labels_have_no_passage(
    tmp_path: Path, capsys: Capture, rows: list[str], unit: str
) -> None:
    """Its passage would be the whole document, which no chunk covers: every setting would seem to fail."""
    write_files(tmp_path, {"notes/a.md": "Text.\n", "q.csv": "\n".join(["question,answer,source", *rows])})
    made = succeeded(capsys, "init", "mine", "--corpus", "notes", "--labels", "q.csv")
    assert load_config("mine/experiment.yaml").evaluators.unit == unit
    said = "1 label without a passage: documents are scored (evaluators.unit)." in made.out
    assert said == (len(rows) == 2)


def test_init_with_own_documents_alone_says_how_to_label(tmp_path: Path, capsys: Capture) -> None:
    write_files(tmp_path, {"notes/a.md": "Text.\n"})
    made = ragtrial(capsys, "init", "notes", "--corpus", "notes")
    assert (made.code, made.err) == (0, "")
    assert made.out.splitlines()[-1] == 'Now: cd notes && ragtrial search experiment.yaml "a question" --label'
    assert not (tmp_path / "notes" / "prompt_queries.json").exists()
    succeeded(capsys, "search", "notes", "text")


def test_init_overwrites_nothing_and_writes_nothing_where_something_is(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "prompt_queries.json").write_text("mine", encoding="utf-8")
    made = ragtrial(capsys, "init", "trial")
    assert (made.code, made.out) == (2, "")
    assert made.err == "error: trial/prompt_queries.json: already exists; init never overwrites. Name another folder.\n"
    assert [path.name for path in (tmp_path / "trial").iterdir()] == ["prompt_queries.json"]
    assert (tmp_path / "trial" / "prompt_queries.json").read_text(encoding="utf-8") == "mine"


PASSAGES = {
    "queries": [{"id": "q1", "text": "x", "relevant_docs": [
        {"doc": "returns.md", "quote": "Return any item"},
        {"doc": "returns.md", "quote": "RETURN ANY\nitem within", "start": 0, "end": 9},
        {"doc": "returns.md", "quote": "Return", "text_hash": "0123456789abcdef"},
        {"doc": "warranty.md", "start": 12, "end": 49}, {"doc": "shipping.txt", "quote": "two\ndays"},
    ]}]
}  # fmt: skip


def test_validate_says_how_passages_were_found_and_cut(tmp_path: Path, capsys: Capture, golden: Golden) -> None:
    text = CONFIG.replace("{kind: document}", "{kind: fixed, size: 24, overlap: 0, unit: characters}")
    text = text.replace("top_k: 3}", "top_k: 3}\n  whole: {kind: dense, top_k: 3, chunker: {kind: document}}")
    config = small_experiment(tmp_path, config=text, labels=PASSAGES).name
    made = succeeded(capsys, "validate", config, "-q")
    golden("validate-passages", made.out)
    answer = ragtrial(capsys, "validate", config, "--json").json
    assert answer["passages"] == {
        "labelled": 5, "exact": 2, "spacing": 1, "case": 1, "typography": 0, "markup": 0, "offsets": 1,
        "lost": 0, "several_places": 1, "moved": 1, "changed": 1,
    }  # fmt: skip
    assert [one["how"] for one in answer["noticed_passages"]] == ["case", "exact", "spacing"]
    assert [(one["name"], one["passages"], one["passages_cut"]) for one in answer["settings"]] == [
        ("dense", 5, 3), ("whole", 5, 0),
    ]  # fmt: skip
    assert [one["code"] for one in answer["warnings"]] == ["label-moved", "text-changed", "quote-twice"]


def test_validate_calls_no_function_of_the_users(tmp_path: Path, capsys: Capture) -> None:
    succeeded(capsys, "validate", small_experiment(tmp_path, functions=BROKEN))


@pytest.fixture
def two_runs(config: Path, capsys: Capture) -> list[str]:
    """The ids of two runs, oldest first; most often of the same second."""
    return [ragtrial(capsys, "run", config, "--json", "-q").json["run_id"] for _ in range(2)]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "Invalid JSON: EOF while parsing an object at line 1 column 1."),
        ('{"schema_version": 2}', "experiment: Field required."),
        ('{"schema_version": 99}', "schema_version: Input should be 2."),
    ],
)
def test_an_unreadable_report_hides_no_other(
    content: str, told: str, two_runs: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    update = "Update ragtrial, or make it again with the command that wrote it."
    told = f"is damaged, or of another version: {told} {update}"
    path = Path("results") / "small" / two_runs[1] / "report.json"
    path.write_text(content, encoding="utf-8")
    made = ragtrial(capsys, "show", two_runs[1])
    assert (made.code, made.out, made.err) == (2, "", f"error: {path}: {told}\n")
    listed = succeeded(capsys, "list")
    by_name = dict(line.split("  ", 1) for line in listed.out.splitlines()[:-1])
    assert by_name[two_runs[0]].endswith("dense ndcg@3 1.000")
    assert by_name[two_runs[1]] == f"{path}: {told}"


def test_a_command_names_a_run_that_is_not_the_latest(two_runs: list[str]) -> None:
    commands = [show_command(load_report(run), "--costs") for run in two_runs]
    assert commands == [f"ragtrial show results/small/{two_runs[0]} --costs", "ragtrial show --costs"]


def test_runs_are_listed_newest_first_and_shown_by_id_folder_or_file(two_runs: list[str], capsys: Capture) -> None:
    made = ragtrial(capsys, "list")
    assert (made.code, made.err) == (0, "")
    header, *rows, others = made.out.splitlines()
    assert others.startswith("`ragtrial list WHAT` also lists retrievers, refiners, ")
    assert header.split() == ["run", "date", "(UTC)", "experiment", "settings", "questions", "labels", "top", "setting"]
    assert [row.split()[0] for row in rows] == two_runs[::-1]
    assert all(row.endswith("  dense ndcg@3 1.000") for row in rows)
    assert [row["name"] for row in ragtrial(capsys, "list", "runs", "--json").json] == two_runs[::-1]
    folder = Path("results") / "small" / two_runs[0]
    for reference in (two_runs[0], two_runs[0][:-1], str(folder), f"{folder}/", str(folder / "report.json")):
        made = succeeded(capsys, "show", reference, "--json")
        assert made.json["run_id"] == two_runs[0]
    assert "may be any of" in ragtrial(capsys, "show", "2").err
    made = ragtrial(capsys, "show", "--query", "q2", "--prompt", "--json")
    (filled,) = made.json
    texts = [hit["text"] for hit in ragtrial(capsys, "show", "--query", "q2", "--json").json[0]["hits"]]
    wanted = "Answer which batteries are covered from " + "\n\n".join(texts) + ' as {"json": true}'
    assert filled == {"setting": "dense", "query": "q2", "prompt": wanted}
    shown = ragtrial(capsys, "show", "--query", "q2", "--prompt").out
    assert shown == f"{wanted}\n\n(dense, query q2: {len(wanted)} characters)\n"


def test_list_says_how_to_make_a_run_when_there_is_none(capsys: Capture) -> None:
    made = ragtrial(capsys, "list", "--results", "nowhere")
    assert (made.code, made.out.splitlines()[0]) == (0, "no reports in nowhere; `ragtrial run CONFIG` makes one.")
    assert ragtrial(capsys, "list", "--results", "nowhere", "--json").json == []


def test_schema_writes_a_file_where_it_is_told_to(tmp_path: Path, capsys: Capture) -> None:
    printed = ragtrial(capsys, "schema", "labels")
    made = ragtrial(capsys, "schema", "labels", "-o", "new/labels.schema.json")
    assert (made.code, made.out) == (0, "new/labels.schema.json\n")
    assert (tmp_path / "new" / "labels.schema.json").read_text(encoding="utf-8") == printed.out
    assert ragtrial(capsys, "schema", "-o", "x.json", "--json").json == {"exit_code": 0, "wrote": ["x.json"]}
    refused(capsys, "schema", "-o", "x.json/y.json", says="error: x.json/y.json: cannot be written: ")
