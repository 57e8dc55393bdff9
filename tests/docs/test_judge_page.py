"""The page on judging tells the truth: its commands run on the sample, with a double that drafts, and no model."""

import json
import re
from pathlib import Path

import pytest

from drafting_double import DRAFTING
from endpoint_double import EndpointDouble
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import read_worklist
from small_experiment import HASHING, Capture, ragtrial, succeeded

PAGE = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ragtrial (.*)$", PAGE, re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    succeeded(capsys, "demo", "sample")
    monkeypatch.chdir(tmp_path / "sample")
    assert [command.split()[0] for command in COMMANDS] == ["questions", "label", "run", "judge", "pool", "compare"]
    config = Path("experiment.yaml").read_text(encoding="utf-8")
    stored, searched = "dense: {kind: run_file, path: dense.trec.gz}", "dense: {kind: dense}"
    assert stored in config  # which has no hits for new questions
    own = 'embedder: {kind: custom, function: "hashing:embed"}\nstore: {kind: exact}\n'
    Path("hashing.py").write_text(HASHING, encoding="utf-8")
    Path("experiment.yaml").write_text(own + config.replace(stored, searched), encoding="utf-8")
    with EndpointDouble(default=DRAFTING) as double:
        made = ragtrial(capsys, *COMMANDS[0].replace("http://localhost:8000/v1", double.url).split())
    assert made.code == 0, made.err
    with Session(Path(COMMANDS[1].split()[1]), who="ada") as session:
        while session.item is not None:
            session.keep()
        session.save()
    drafted = len(session.answers.given)
    assert 30 <= drafted <= 40
    for command in COMMANDS[2:5]:
        succeeded(capsys, *command.split())
    known = {query["id"]: {str(one["doc"]): one.get("relevance", 1) for one in query["relevant_docs"]}
             for query in json.loads(Path("prompt_queries.json").read_text())["queries"]}  # fmt: skip
    items = read_worklist("people.json").items
    with Session(Path("people.json"), who="ada") as session:  # people grade as the labels of the sample do
        while (number := session.answers.current) is not None:
            session.grade(known[items[number].query].get(items[number].doc, 0))
        session.save()
    succeeded(capsys, "rescore", "latest", "--labels", "experiment.yaml")
    compared = succeeded(capsys, *COMMANDS[5].split(), "--json")
    judge = compared.json["judge"]
    assert (judge["people"], judge["judged"], judge["drawn_at_random"]) == (20, 62 + drafted, True)
    succeeded(capsys, "report", "latest", "--judge", "judgments.llm.jsonl", "-o", "judged.html")
    assert "mean scores minus people" in Path("judged.html").read_text(encoding="utf-8")
