"""What others wrote is made harmless wherever it leaves: raw bytes of a terminal and of files, for every command."""

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from endpoint_double import EndpointDouble
from small_experiment import CONFIG, LABELS, small_experiment
from terminals import in_terminal, shown

STEERING = "\x1b[2J\x1b]0;t\x07\x1b]52;c;Y3VybA==\x07\x9b31m\u202edliub\u2066\r\x08\x7f"
LINES = "\n::error::forged\n  ::stop-commands::x\n##[group]g ##vso[task.setvariable variable=a]b ##teamcity[a]\n"
TEXT = f"=1+1 bread {STEERING}{LINES}::add-mask::soup"
NAME = f"=cmd|' calc'!A0{STEERING} <img src=x> [l](javascript:x) @someone \n::error::name"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMAND = re.compile(r"^\s*::|##\[|##vso\[|##teamcity\[", re.MULTILINE)
RETRIEVERS = "retrievers: {words: {kind: bm25}, other: {kind: bm25, k1: 2}}\nlatency: false\n"


def hostile_report(folder: Path) -> None:
    """Put hostile words into every text of a report that may be anything, and forget its checksums."""
    value: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    text = json.dumps({**value, "files": {}, "checksum": ""})
    for own in ("words", "q1"):
        text = text.replace(json.dumps(own), json.dumps(f"{own}{NAME}"))
    value = {**json.loads(text), "config": value["config"]}
    value["experiment"] += NAME
    value["prompt"] = f"{TEXT} {{query}} {{contexts}}"
    value["failures"] = [{"name": f"gone{NAME}", "error": TEXT, "details": TEXT}]
    value["warnings"] = [{"code": "query-without-answer", "message": TEXT}]
    (folder / "report.json").write_text(json.dumps(value), encoding="utf-8")
    (folder / "rankings" / "words.jsonl.gz").rename(folder / "rankings" / f"words{NAME}.jsonl.gz")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an experiment with hostile documents and questions, its report, and a hostile report."""
    folder = tmp_path_factory.mktemp("hostile")
    queries = [{"id": f"q{number}{NAME if number else ''}", "text": f"bread {TEXT}", "tags": [f"tag{NAME}"],
                "relevant_docs": [{"doc": "a.txt"}]} for number in range(3)]  # fmt: skip
    documents = {"a.txt": f"bread {TEXT}\n", f"b{STEERING}.md": f"# soup {TEXT}\n\nmore {TEXT}\n", "c.txt": "x\n"}
    config = CONFIG.partition("retrievers:")[0] + RETRIEVERS
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RAGTRIAL_WORKSPACE", str(folder / "cache"))
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TERM", "dumb")
        small_experiment(folder, config=config, labels={**LABELS, "queries": queries}, documents=documents)
        code, output = shown("run", "experiment.yaml")
        assert code == 0, output
        harmless(output.decode())
        (report,) = folder.glob("results/small/2*")
        hostile_report(shutil.copytree(report, folder / "foreign"))
        yield folder


def harmless(text: str) -> None:
    for harm in (BAD, COMMAND):
        found = harm.search(text)
        assert found is None, text[max(0, found.start() - 200) : found.end() + 50]


DONE = [
    "validate", "validate --json", "plan", "plan -v", "chunks", "chunks --json", "chunks -o -", "search bread",
    "search bread --json", "labels list", "labels list --json", "run", "list", "list runs --json", "cache list",
    "cache verify", "show latest", "show latest --json", "show foreign", "show foreign --json", "show foreign --csv",
    "show foreign --csv --per-query", "show foreign --metrics all", "export foreign - --baseline",
    "show foreign --costs", "show foreign --query QUERY", "show foreign --query QUERY --prompt",
    "show foreign --setting SETTING", "compare foreign", "compare foreign --json", "compare foreign --queries",
    "compare foreign --markdown -", "compare foreign --junit -", "compare foreign --csv -", "compare foreign latest",
    "report foreign -o page.html", "rescore latest --metrics rr@2", "rescore latest --metrics rr@3 --json",
    "pool foreign --setting other -o work.json", "judge foreign --plan --endpoint http://127.0.0.1:9 --model m",
]  # fmt: skip
REFUSED = [
    "show foreign --setting nothing", "compare foreign --setting nothing",
    "compare foreign --baseline SETTING --fail-if NAME", "rescore foreign -o other",
    "rescore foreign --metrics rr@2", "pool foreign -o pool.json",
    "export foreign run.trec --run SETTING", "export foreign - --run SETTING", "export foreign - --run nothing",
    "list foreign", "explain NAME", "NAME", "run NAME", "show NAME", "cache pull NAME",
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), [*((line, 0) for line in DONE), *((line, 2) for line in REFUSED)])
def test_no_command_shows_what_steers_a_terminal_or_commands_a_job(here: Path, line: str, expected: int) -> None:
    names = {"QUERY": f"q1{NAME}", "SETTING": f"words{NAME}", "NAME": NAME}
    code, output = shown(*(names.get(word, word) for word in line.split()))
    assert code == expected, output
    assert output.strip()
    harmless(output.decode())


def test_files_for_others_hold_no_formula_no_markup_and_are_what_they_should_be(here: Path) -> None:
    code, output = shown("compare", "foreign", "--csv", "a.csv", "--markdown", "a.md", "--junit", "a.xml", "-q")
    assert code == 0, output
    table = (here / "a.csv").read_text(encoding="utf-8")
    assert "words" in table
    assert not re.search(r"(?m)(^|,)\"?[=@\t\r]", table)
    markdown = (here / "a.md").read_text(encoding="utf-8")
    assert not BAD.search(markdown)
    assert not re.search(r"<img|\]\(", markdown)
    assert "@someone" not in unescape(markdown), "GitHub looks for mentions after it has replaced references"
    content = (here / "a.xml").read_text(encoding="utf-8")
    assert not BAD.search(content)
    assert "words" in "".join(ET.fromstring(content).itertext())


def test_what_a_server_says_is_shown_harmless_by_run_and_judge(here: Path) -> None:
    def refuse(handler: Any, _answer: Any) -> None:
        handler.reply(400, json.dumps({"error": {"message": f"no {TEXT}"}}, ensure_ascii=False))

    with EndpointDouble(faults=[refuse] * 100) as endpoint:
        config = (here / "experiment.yaml").read_text(encoding="utf-8").partition("retrievers:")[0]
        config = config.replace('{kind: custom, function: "hashing:embed"}',
                                f"{{kind: openai, base_url: '{endpoint.url}', model: m, dimensions: 16}}")  # fmt: skip
        (here / "served.yaml").write_text(config + "retrievers: {dense: {kind: dense}}\n", encoding="utf-8")
        for line in ("run served.yaml", f"judge foreign --endpoint {endpoint.url} --model m -o judged.replies"):
            _, output = shown(*line.split())
            harmless(output.decode())
            assert "no =1+1" in output.decode()


def test_texts_to_grade_are_shown_harmless(here: Path) -> None:
    with in_terminal("search", "experiment.yaml", "bread", "--label") as typed:
        text = typed.await_text(", 0 graded: ").replace("\r\n", "\n")
    assert "bread" in text
    harmless(text)
