"""Every `Next:` command that a screen prints works as it is printed, whatever the config is called."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpora import write_beir
from drafting_double import DRAFTING
from endpoint_double import EndpointDouble
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import read_worklist
from small_experiment import Capture, ragtrial, succeeded

ROOT = Path(__file__).parents[2]

CONFIG = f"""\
experiment: words
dataset: {{corpus: {ROOT}/data/support, queries: ../labels.json}}
chunker: {{kind: recursive, size: 500, overlap: 100, unit: characters}}
retrievers:
  words: {{kind: bm25, stemmer: none, stop_words: none, k1: 0.3}}
  stems: {{kind: bm25}}
  whole: {{kind: bm25, chunker: {{kind: document}}}}
  tiny: {{kind: bm25, k1: 0, b: 0, stemmer: none, stop_words: none, chunker: {{kind: fixed, size: 30, overlap: 0}}}}
output: {{directory: ../out/reports}}
latency: false
"""
"""The config of the tests: neither it nor the folder of its reports has the usual name."""

OTHER = CONFIG.replace("experiment: words", "experiment: twins").replace("k1: 0.3", "k1: 0.31")

SWEEP = (
    CONFIG.partition("retrievers:")[0].replace("experiment: words", "experiment: sweep")
    + """\
retrievers: {words: {kind: bm25, stemmer: none, stop_words: none}}
sweep: {matrix: {retrievers.words.k1: [1.19, 1.2, 1.21]}}
output: {directory: ../out/reports}
latency: false
"""
)

SCREENS = {
    "run": "run configs/words.yaml",
    "few questions": "run configs/words.yaml --limit 5",
    "one of several settings": "run configs/words.yaml --setting stems",
    "run with a gate": 'run configs/words.yaml --baseline words --fail-if "ndcg@10 worse than baseline"',
    "run with an earlier baseline": 'run configs/words.yaml --baseline {words}:whole --fail-if "ndcg@10 < 0.1"',
    "compare": "compare {words}",
    "from a folder of results": "compare latest --results out/reports",
    "options": "compare {words} --metric recall@5 --margin 0.05 --confidence 0.9",
    "one baseline": "compare {words} --baseline words --margin 0.3",
    "two settings": "compare {words} --setting stems --setting whole",
    "two runs": "compare {words} {twins}",
    "two runs, all pairs": "compare {words} {twins} --all-pairs --setting words --setting stems",
    "a setting of another run": "compare {words} --baseline {twins}:words --margin 0.001",
    "a table": "compare scores.csv",
    "a table, one baseline": "compare scores.csv --baseline old --metric score",
    "a sweep": "run configs/sweep.yaml",
    "a judge": "judge {words} --offline --queries 20 --metric recall@5",
    "a judge of two settings": "judge {words} --offline --queries 20 --setting stems --setting whole",
    "a pool": "pool {words} --config configs/words.yaml --budget 5 --force",
    "a pool in another folder": "pool {words} --config configs/words.yaml --budget 5 -o '{lists}/pooled.json'",
    "drafts": "questions configs/words.yaml --count 3 --endpoint {endpoint} --model m -o '{lists}/drafts.json'",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two runs, of which `out/ids` has the names."""
    folder = tmp_path_factory.mktemp("next") / "a project"
    (folder / "configs").mkdir(parents=True)
    (folder / "labels.json").write_bytes((ROOT / "prompt_queries.json").read_bytes())
    scores = [f"q{place},{name},{(place % 5 + better) / 9},{place + better}" for place in range(30)
              for name, better in (("old", 0), ("new", 3))]  # fmt: skip
    (folder / "scores.csv").write_text("\n".join(["question,system,score,latency_ms", *scores]) + "\n")
    for name, config in {"words": CONFIG, "twins": OTHER, "sweep": SWEEP}.items():
        (folder / "configs" / f"{name}.yaml").write_text(config, encoding="utf-8")
    return folder


@pytest.fixture
def runs(project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The folders of the two runs, seen from the project, which is the current folder."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("COLUMNS", raising=False)  # lines are whole
    for name in ("words", "twins"):
        if not Path("out/reports", name).exists():
            assert ragtrial(capsys, "run", f"configs/{name}.yaml", "-q").code == 0
    first = Path("out/first.json")  # tests write more runs of the same names, even within the same second
    if not first.exists():
        found = {name: next(Path("out/reports", name).glob("*/report.json")) for name in ("words", "twins")}
        first.write_text(json.dumps({name: str(report.parent) for name, report in found.items()}), encoding="utf-8")
    return dict(json.loads(first.read_text(encoding="utf-8")))


@pytest.fixture(autouse=True)
def labels(project: Path) -> Iterator[None]:
    """Labels that a followed command adds are gone afterwards."""
    before = (project / "labels.json").read_bytes()
    yield
    (project / "labels.json").write_bytes(before)


def _next_commands(screen: str) -> list[list[str]]:
    return [*map(shlex.split, re.findall(r"^(?: *|.*; )[Nn]ext: (?:.*: )?(ragtrial .*)$", screen, re.MULTILINE))]


def _follow(capsys: Capture, command: list[str]) -> int:
    arguments = command[1:]
    if arguments[0] == "search":  # a person grades by key; a program names the grade
        arguments += ["--grade", "1=1"]
    if arguments[0] == "pool":
        arguments += ["--force"]
    if arguments[0] == "label":
        assert len(command) == 3 or ragtrial(capsys, *arguments[:2]).err.endswith(f": {shlex.join(command)}\n")
        arguments += _answered(arguments)
    return ragtrial(capsys, *arguments).code


def _answered(arguments: list[str]) -> list[str]:
    """Grade the texts of a worklist, so that no page waits for a person; the options that keep drafts without one."""
    file, names = arguments[1], dict(zip(arguments[2::2], map(Path, arguments[3::2]), strict=True))
    if read_worklist(file).is_drafted:
        return ["--unreviewed"]
    with Session(file, labels=names.get("--labels"), config=names.get("--config")) as session:
        while session.item:
            session.grade(1)
    return []


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_a_next_command_works_as_printed(screen: str, runs: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    lists = tmp_path / "some lists"
    lists.mkdir()
    with EndpointDouble(default=DRAFTING) as double:
        made = ragtrial(capsys, *shlex.split(screen.format(**runs, lists=lists, endpoint=double.url)))
    assert made.code in (0, 1), made.err
    commands = _next_commands(made.out)
    assert commands, made.out
    for command in commands:
        assert not {"CONFIG", "REPORT", "FILE"} & set(command)
        assert "--setting" in command or "--setting" not in screen or command[1] in ("search", "run")
        assert _follow(capsys, command) in (0, 1), command


def test_commands_in_brackets_show_the_same_report(
    runs: dict[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is not the latest, and not in `results`."""
    monkeypatch.setenv("COLUMNS", "60")
    screens = (["show", runs["words"]], ["show", runs["words"], "--setting", "tiny"])
    shown = " ".join(word for screen in screens for word in ragtrial(capsys, *screen).out.split())
    commands = {command.replace("ID", "hub-01") for command in re.findall(r"\((ragtrial show [^)]+)\)", shown)}
    assert {command.split()[3] for command in commands} == {"--metrics", "--query"}
    for command in commands:
        assert runs["words"] in command
        succeeded(capsys, *shlex.split(command)[1:])


def test_a_placeholder_is_explained_where_the_config_is_not_known(
    runs: dict[str, str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path.cwd()
    monkeypatch.chdir(tmp_path)
    made = ragtrial(capsys, "compare", str(project / runs["words"]))
    assert "; CONFIG is the config of this run: ragtrial pool" in made.out
    both = [str(project / runs[name]) for name in ("words", "twins")]
    several = ragtrial(capsys, "compare", *both, "--all-pairs").out
    assert "; CONFIG is the config of one of these runs: ragtrial pool" in several
    (command,) = _next_commands(made.out)
    named = [str(project / "configs/words.yaml") if word == "CONFIG" else word for word in command]
    assert named != command
    assert _follow(capsys, named) == 0


@pytest.mark.parametrize(("unit", "added", "count"), [
    ("document", "", 2), ("span", "", 2), ("document", "More text.", 2), ("span", "More text.", 0),
])  # fmt: skip
def test_runs_with_other_labels_are_compared_by_the_commands_of_the_message(
    unit: str, added: str, count: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label of a whole document needs the config for its passages, which lie elsewhere if documents change."""
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("experiment.yaml").write_text(
        "experiment: loaves\ndataset: {corpus: docs, queries: labels.json}\nchunker: {kind: document}\n"
        f"evaluators: {{unit: {unit}}}\nretrievers: {{a: {{kind: bm25}}}}\nlatency: false\n"
    )
    folders = []
    for grade, text in ((1, ""), (2, added)):
        queries = [{"id": name, "text": name, "relevant_docs": [{"doc": f"{name}.md"}]} for name in "abcdefghijkl"]
        queries[0]["relevant_docs"] = [{"doc": "a.md", "relevance": grade}]
        Path("labels.json").write_text(json.dumps({"queries": queries}))
        for query in queries:
            Path("docs", f"{query['id']}.md").write_text(f"The loaf {query['id']}. {text}")
        folders.append(json.loads(succeeded(capsys, "run", "--json").out)["report"].removesuffix("/report.json"))
    message = ragtrial(capsys, "compare", *folders).err
    commands = re.findall(r"`(ragtrial [^`]+)`", message)
    assert len(commands) == count
    for command in commands:
        succeeded(capsys, *shlex.split(command)[1:])
    assert ("--common" in message) == (ragtrial(capsys, "compare", *folders, "--common").code == 0)


@pytest.mark.usefixtures("runs")
def test_few_clusters_are_reported_wherever_a_conclusion_is(capsys: Capture) -> None:
    options = ("--set", "evaluators.clusters=document", "--setting", "words", "--setting", "stems")
    ran = ragtrial(capsys, "run", "configs/words.yaml", *options)
    (folder,) = re.findall(r"^Report   (\S+)", ran.out, re.MULTILINE)
    for done in (ran, ragtrial(capsys, "show", folder), ragtrial(capsys, "compare", folder)):
        assert done.err.count("the questions are in 1 cluster, and an interval takes 10 that differ") == 1
    plain = ragtrial(capsys, "show", folder, "--metrics", "ndcg@10")
    assert "cluster" not in plain.err, "nothing is concluded there"


def test_the_config_of_the_later_run_or_of_a_folder_below_is_named(
    runs: dict[str, str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report from elsewhere brings its own config along: nothing advises to run it."""
    copy = Path(shutil.copytree(runs["words"], tmp_path / "else" / "copy"))
    folders = [str(Path(runs[name]).resolve()) for name in ("words", "twins")]
    Path(tmp_path / "trial").mkdir()
    shutil.copy(Path(folders[1]) / "config.yaml", tmp_path / "trial" / "experiment.yaml")
    monkeypatch.chdir(tmp_path)
    assert "--config trial/experiment.yaml" in ragtrial(capsys, "compare", *folders, "--all-pairs").out
    assert "--config CONFIG" in ragtrial(capsys, "compare", folders[0]).out
    shutil.copy(copy / "config.yaml", copy / "experiment.yaml")
    for folder, report in ((copy, "."), (copy.parent, "copy")):
        monkeypatch.chdir(folder)
        assert "--config CONFIG" in ragtrial(capsys, "compare", report).out


def test_a_beir_folder_is_labelled_beside_it(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the data set stays as it is, so `pool` needs the name of another file."""
    monkeypatch.delenv("COLUMNS", raising=False)
    sample = ROOT / "data/support"
    texts = {file.relative_to(sample).as_posix(): file.read_text() for file in sorted(sample.rglob("*.md"))}
    asked = json.loads((ROOT / "prompt_queries.json").read_text())["queries"]
    judged = {f"{query['id']}\t{label['doc']}\t1\n": None for query in asked for label in query["relevant_docs"]}
    assert len(judged) > 20
    queries = {query["id"]: query["text"] for query in asked}
    write_beir(tmp_path / "set", texts, queries, f"query-id\tcorpus-id\tscore\n{''.join(judged)}")
    Path("mine.yaml").write_text(
        "experiment: loaves\ndataset: {beir: set}\nchunker: {kind: document}\nlatency: false\n"
        "retrievers: {a: {kind: bm25}, b: {kind: bm25, stemmer: none, stop_words: none, k1: 0.3}}\n"
    )
    before = {path: path.read_bytes() for path in Path("set").rglob("*.*")}
    (command,) = _next_commands(ragtrial(capsys, "run", "mine.yaml").out)
    assert command[1] == "pool"
    assert _follow(capsys, command) == 0
    assert {path: path.read_bytes() for path in Path("set").rglob("*.*")} == before
