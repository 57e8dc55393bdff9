"""A small corpus, labels for it as other tools write them, and the command that converts them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commands import Outcome
from corpora import write_files
from small_experiment import Capture, ragtrial

DOCUMENTS: Mapping[str, str] = {
    "hub/reset.md": (
        "# Reset the hub\n\nHold the button for ten seconds.\nThe ring turns white, then the hub restarts.\n\n"
        "## If it does not restart\n\nUnplug the hub. Hold the button for ten seconds.\n"
    ),
    "hub/lights.md": "# Lights\n\nA white ring means ready.  A red ring means an error.\nCall us on 555 0101.\n",
    "faq.txt": "How long is the warranty?\nSix months.\n\nWho pays for returns?\nYou do.\nCall us on 555 0101.\n",
    "empty.txt": "",
}

RESET, LIGHTS, FAQ = (DOCUMENTS[name] for name in ("hub/reset.md", "hub/lights.md", "faq.txt"))

WHITE = "The ring turns white, then the hub restarts."
TWICE = "Hold the button for ten seconds."
BOTH = "Call us on 555 0101."
RED = "A red ring means an error."


def corpus(folder: Path) -> Path:
    """Write the documents; their folder."""
    return write_files(folder / "documents", DOCUMENTS)


def written(path: Path, content: object) -> Path:
    """Write a text or bytes as they are, anything else as JSON."""
    raw = content if isinstance(content, str | bytes) else json.dumps(content)
    write_files(path.parent, {path.name: raw})
    return path


def lines(rows: list[Any]) -> str:
    """The rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


class Conversions:
    """``labels convert`` in a folder that has the corpus."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self._capsys = capsys
        self.folder = folder
        self.target = folder / "prompt_queries.json"
        self.source = folder / "labels"
        corpus(folder)

    def __call__(self, content: object, *options: str) -> Outcome:
        written(self.source, content)
        return ragtrial(
            self._capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", self.target.name, "-q",
            *options,
        )  # fmt: skip

    def answer(self, content: object, *options: str) -> dict[str, Any]:
        """The JSON document of a conversion that ends well."""
        made = self(content, "--json", "--force", *options)
        assert (made.code, made.err) == (0, "")
        answer: dict[str, Any] = made.json
        return answer

    def rows(self, content: object, *options: str) -> list[dict[str, Any]]:
        """The queries that a conversion writes, each label without its hash, spans checked against the text."""
        self.answer(content, *options)
        queries: list[dict[str, Any]] = json.loads(self.target.read_text(encoding="utf-8"))["queries"]
        for query in queries:
            for label in query["relevant_docs"]:
                assert ("text_hash" in label) == ("start" in label)
                label.pop("text_hash", None)
                if "start" in label:
                    assert DOCUMENTS[label["doc"]][label["start"] : label["end"]] == label["quote"]
        return queries

    def hows(self, content: object, *options: str) -> list[str]:
        """How each label was resolved."""
        return [label["how"] for label in self.answer(content, *options)["labels"]]

    def noted(self, content: object) -> str:
        """What is said beside the result of a conversion that ends well."""
        written(self.source, content)
        made = ragtrial(
            self._capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "noted.json", "--force"
        )
        assert made.code == 0
        return made.err

    def faults(self, content: object, *options: str) -> list[str]:
        """What is said of a file that is refused; nothing is written."""
        made = self(content, *options)
        assert (made.code, made.out) == (2, "")
        assert not self.target.exists()
        return [line.removeprefix("error: labels") for line in made.err.splitlines()]


def label(doc: str, quote: str, relevance: int = 1, after: int = 0) -> dict[str, Any]:
    """The row of a passage that is in ``doc``, from the character ``after`` on."""
    start = DOCUMENTS[doc].index(quote, after)
    return {"doc": doc, "relevance": relevance, "quote": quote, "start": start, "end": start + len(quote)}
