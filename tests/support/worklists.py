"""Worklists over the small experiment, and the page that asks them, served."""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragtrial.labelling.session.serving import LabelPage
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import Draft, DraftCounts, DraftSource, TextToGrade, Worklist, write_worklist
from ragtrial.views.label_page import assets
from small_experiment import DOCUMENTS, LABELS, small_experiment

QUESTIONS = {query["id"]: query["text"] for query in LABELS["queries"]}  # type: ignore[index]
JUDGED = {0: 2, 4: 1}
"""Which items of ``whole_documents`` the labels judge, and how."""


def whole_documents() -> list[TextToGrade]:
    """Each document for each query: six items."""
    return [
        TextToGrade(query=query, question=text, doc=doc, title=doc.partition(".")[0].title(), start=None, end=None,
                 text=str(content))
        for query, text in QUESTIONS.items() for doc, content in DOCUMENTS.items()
    ]  # fmt: skip


def item(
    text: str, doc: str = "shipping.txt", query: str = "q1", start: int | None = 0, title: str = ""
) -> TextToGrade:
    """One item; a passage from character 0 unless ``start`` says otherwise."""
    end = None if start is None else start + len(text)
    return TextToGrade(query=query, question=QUESTIONS[query], doc=doc, title=title, start=start, end=end, text=text)


def write_work(folder: Path, items: Sequence[TextToGrade] | None = None, judged: object = LABELS, **given: Any) -> Path:
    """The small experiment with the labels ``judged``, if it is not there yet, and a worklist over it."""
    if not (folder / "experiment.yaml").exists():
        small_experiment(folder, labels=judged)
    usual: dict[str, Any] = {
        "ragtrial_worklist": 1, "labels": str(folder / "prompt_queries.json"), "kind": "prompt_queries",
        "config": str(folder / "experiment.yaml"), "form": "document", "metric": "ndcg@10", "highest_grade": 3,
        "seed": 0, "items": list(whole_documents() if items is None else items),
    }  # fmt: skip
    write_worklist(Worklist(**{**usual, **given}), folder / "worklist.json", force=True)
    return folder / "worklist.json"


def judgments(folder: Path, query: str) -> dict[str, int]:
    """The grade of each document of a query, as the labels have it."""
    rows = json.loads((folder / "prompt_queries.json").read_text(encoding="utf-8"))["queries"]
    (labels,) = (row["relevant_docs"] for row in rows if row["id"] == query)
    return {label["doc"]: label.get("relevance", 1) for label in labels}


@contextmanager
def served(worklist: Path, **given: Any) -> Iterator[LabelPage]:
    """The page over a worklist, until the block ends or somebody finishes it."""
    with Session(worklist, who="ada", **given) as session:
        page = LabelPage(session, assets())
        thread = threading.Thread(target=page.serve)
        thread.start()
        try:
            yield page
        finally:
            page.shutdown()
            thread.join()


def start_page(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A command with its page, and the page's address."""
    command = [sys.executable, "-m", "ragtrial", *arguments, "--no-browser", "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    found = re.fullmatch(r"label here: (http://127\.0\.0\.1:\d+/\S+/)\n", process.stderr.readline())
    assert found
    return process, found[1]


def post(url: str, name: str, **body: int) -> Any:
    """What the server of a page answers to a request."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request("POST", f"/{path}{name}", json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def write_drafts(folder: Path) -> Path:
    """A worklist of two drafts over the small experiment: an answer that is in its passage, and none."""
    text, quote = str(DOCUMENTS["returns.md"]), "within thirty days"
    drafted = [Draft(style="keywords", quote=quote, at=text.index(quote)), Draft(style="keywords", quote=None, at=None)]
    counts = DraftCounts(replies=2, unparsable=0, not_in_passage=0, repeated=0, copied=0)
    items = [
        item(text, "returns.md").model_copy(
            update={"query": f"draft-{number}", "question": f"question {number}?", "draft": draft}
        )
        for number, draft in enumerate(drafted)
    ]
    worklist = write_work(
        folder, items, form="quote", drawn="drafted", source=DraftSource(model="m", prompt="0" * 16, counts=counts)
    )
    return worklist.rename(folder / "drafts.json")
