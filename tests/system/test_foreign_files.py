"""A report, a worklist and an overlay of somebody else are data: no command imports them, or leads out of them."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from edited_reports import edit_report
from small_experiment import Capture, ragtrial, small_experiment, succeeded
from watched_commands import watched
from worklists import QUESTIONS, write_drafts, write_work

SOURCE = Path(__file__).parents[2] / "src"
CONFIG = """\
experiment: strange
dataset: {corpus: documents, queries: prompt_queries.json}
chunker: {kind: custom, function: "cutting:cut"}
embedder: {kind: custom, function: "hashing:embed"}
store: {kind: exact}
evaluators: {unit: span, order_aware: {k: [3]}, graded: {k: [3]}, order_unaware: {k: [3]}, primary_metric: ndcg@3}
retrievers:
  dense: {kind: dense, top_k: 3}
  words: {kind: bm25, top_k: 3}
latency: false
"""
CUTTING = "def cut(text):\n    return [(0, len(text))]\n"
QUOTE = {"doc": "returns.md", "quote": "within thirty days"}
QUOTED = {"queries": [{"id": name, "text": text, "relevant_docs": [QUOTE]} for name, text in QUESTIONS.items()]}


@dataclass(frozen=True)
class Foreign:
    """``folder`` is somebody else's, with a report in it; ``outside`` is what nobody named."""

    folder: Path
    outside: Path

    @property
    def report(self) -> Path:
        return self.folder / "report"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    """A report of custom code, with the config, the code and the cache in the report folder and around it."""
    root = tmp_path_factory.mktemp("foreign")
    folder, outside = root / "theirs", root / "outside"
    small_experiment(folder, config=CONFIG, labels=QUOTED)
    (folder / "cutting.py").write_text(CUTTING)
    small_experiment(outside)
    (outside / "overlay.tsv").write_text("query-id\tcorpus-id\tscore\n")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    made = subprocess.run([sys.executable, "-m", "ragtrial", "run", "experiment.yaml", "-q"], cwd=folder,
                          env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert made.returncode == 0, made.stderr
    (report,) = (folder / "results" / "strange").glob("2*")
    for name in ("experiment.yaml", "cutting.py", "hashing.py", "prompt_queries.json"):
        shutil.copy(folder / name, report / name)
    shutil.copytree(folder / "documents", report / "documents")
    edit_report(report, '"corpus": "documents"', f'"corpus": "{outside / "documents"}", "on_error": "skip"')
    shutil.move(report, folder / "report")
    shutil.rmtree(folder / "results")
    write_drafts(folder)
    write_work(folder)
    for name in ("worklist.json", "drafts.json"):
        shutil.copy(folder / name, folder / "report")
    return Foreign(folder, outside)


@pytest.fixture
def foreign(packed: Foreign, tmp_path: Path) -> Foreign:
    shutil.copytree(packed.folder, tmp_path / "theirs", symlinks=True)
    shutil.copytree(packed.outside, tmp_path / "outside")
    return Foreign(tmp_path / "theirs", tmp_path / "outside")


COMMANDS: dict[str, tuple[int, ...]] = {
    "show {report}": (0,),
    "show {report} --query q1": (0,),
    "report {report} -o page.html": (0,),
    "compare {report}": (0,),
    "judge {report} --offline -o judged.jsonl": (0,),
    "pool {report} -o pooled.json": (0, 2),
    "pool {report} --labels mine.json -o pooled-mine.json": (0,),
    "pool {report} --labels mine.json --random-queries 2 -o random.json": (0,),
    "rescore {report} --metrics precision@3 -o again": (0,),
    "rescore {report} --set evaluators.span_coverage=1.0 -o other": (0,),
    "rescore {report} --labels {labels} -o quoted": (2,),
    "score {labels} {report}": (0, 2),
    "export {report} -o exported": (0, 2),
    "list runs --results {folder}": (0,),
    "label {worklist} --unreviewed": (2,),
    "label {worklist} --labels mine.json --unreviewed": (2,),
    "label {drafts} --labels mine.json --unreviewed": (0,),
    "label {report}/drafts.json --unreviewed": (0,),
}
"""Each command, and the exit codes that are right for it. Those that run an experiment name a config."""


@pytest.mark.parametrize("where", ["beside", "around", "inside"])
def test_no_command_runs_contacts_or_leaves_what_is_foreign(foreign: Foreign, tmp_path: Path, where: str) -> None:
    cwd = {"beside": tmp_path / "here", "around": foreign.folder, "inside": foreign.report}[where]
    cwd.mkdir(exist_ok=True)
    shutil.copy(foreign.folder / "prompt_queries.json", cwd / "mine.json")
    near = {"beside": foreign.folder, "around": Path(), "inside": Path("..")}[where]
    paths = {
        "report": "." if where == "inside" else near / "report", "worklist": near / "worklist.json",
        "drafts": near / "drafts.json", "labels": near / "prompt_queries.json", "folder": near,
    }  # fmt: skip
    lines = [command.format(**paths).split() for command in COMMANDS]
    for command, found in zip(COMMANDS, watched(cwd, lines, tmp_path / "log.json", SOURCE), strict=True):
        assert "Traceback" not in found.said, command
        assert "should not" not in found.said, command
        assert found.code in COMMANDS[command], (command, found.said)
        assert found.reached == [], command
        assert [path for path in found.imported if path.is_relative_to(tmp_path)] == [], command
        assert [path for path in found.opened if path.is_relative_to(foreign.outside)] == [], command


LEADING_OUT: dict[str, tuple[dict[str, str | None], str]] = {
    "labels by ..": ({"labels": "../outside/prompt_queries.json"}, "--labels FILE"),
    "labels, absolute": ({"labels": "{outside}/prompt_queries.json"}, "--labels FILE"),
    "labels by a link": ({"labels": "link/prompt_queries.json"}, "--labels FILE"),
    "an overlay": ({"labels": "../outside/overlay.tsv", "kind": "overlay"}, "--labels FILE"),
    "config by ..": ({"config": "../outside/experiment.yaml"}, "--config CONFIG"),
    "config by a link": ({"config": "link/experiment.yaml"}, "--config CONFIG"),
    "documents of the config": ({"config": "documents.yaml"}, "--config CONFIG"),
    "labels of the config": ({"config": "labels.yaml"}, "--config CONFIG"),
    "cache of the config": ({"config": "cache.yaml"}, "--config CONFIG"),
    "what the config extends": ({"config": "extends.yaml"}, "--config CONFIG"),
    "a link among the documents": ({"config": "linked.yaml"}, "--config CONFIG"),
    "answers by a link": ({"config": None}, "another worklist"),
}


def test_a_worklist_leads_nowhere_that_is_not_below_its_folder(foreign: Foreign, tmp_path: Path) -> None:
    folder, outside = foreign.folder, foreign.outside
    (folder / "link").symlink_to(outside)
    config = (folder / "experiment.yaml").read_text()
    configs = {
        "documents.yaml": config.replace("corpus: documents", f"corpus: {outside}/documents"),
        "labels.yaml": config.replace("queries: prompt", f"queries: {outside}/prompt"),
        "cache.yaml": f"workspace: {outside}/cache\n{config}",
        "extends.yaml": f"extends: {outside}/experiment.yaml\n",
        "linked.yaml": config.replace("corpus: documents", "corpus: linked"),
    }
    for name, text in configs.items():
        (folder / name).write_text(text)
    (folder / "linked").mkdir()
    (folder / "linked" / "a.txt").symlink_to(outside / "documents" / "shipping.txt")
    worklist = json.loads((folder / "worklist.json").read_text())
    names = [f"worklist{number}.json" for number in range(len(LEADING_OUT))]
    for name, (changed, _) in zip(names, LEADING_OUT.values(), strict=True):
        changes = {key: value and value.format(outside=outside) for key, value in changed.items()}
        (folder / name).write_text(json.dumps(worklist | changes))
    (folder / names[-1]).with_suffix(".answers.jsonl").symlink_to(outside / "answers.jsonl")
    before = sorted(outside.rglob("*"))
    ended = watched(folder, [["label", name, "--unreviewed"] for name in names], tmp_path / "log.json", SOURCE)
    for (case, (_, option)), found in zip(LEADING_OUT.items(), ended, strict=True):
        assert found.code == 2, case
        assert "is outside of" in found.said or "extends another config" in found.said, case
        assert option in found.said, case
        assert [path for path in found.opened if path.is_relative_to(outside)] == [], case
        assert found.reached == [], case
    assert sorted(outside.rglob("*")) == before


def test_variables_in_the_config_of_a_report_are_read_only_for_a_named_config_that_has_them(
    foreign: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """So are those of one's own, which has the same text."""
    edit_report(foreign.report, '   "primary_metric": "ndcg@3"', '   "primary_metric": "${STOLEN}"')
    config = foreign.folder / "experiment.yaml"
    rescore = ("rescore", str(foreign.report), "--set", "evaluators.span_coverage=1.0", "-o")
    monkeypatch.setenv("STOLEN", "a secret")
    for more in ((), ("--config", str(config))):
        made = ragtrial(capsys, *rescore, tmp_path / "never", *more)
        assert made.code == 2
        assert "a secret" not in made.err + made.out
    monkeypatch.setenv("STOLEN", "ndcg@3")
    config.write_text(config.read_text().replace("primary_metric: ndcg@3", 'primary_metric: "${STOLEN}"'))
    monkeypatch.chdir(foreign.folder)
    succeeded(capsys, *rescore, tmp_path / "again", "--config", config)
