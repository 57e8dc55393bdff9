"""A search function of a user's, as the text of its file: every call is noted, and it fails when it is given to."""

import json
from pathlib import Path

SEARCH = """
import json
import os
import signal
from pathlib import Path

HERE = Path(__file__).parent
TEXTS = {
    path.relative_to(HERE / "documents").as_posix(): path.read_text()
    for path in sorted((HERE / "documents").rglob("*.*"))
}


def words(text):
    return {word.strip(".,?#").lower() for word in text.split()}


def search(queries, top_k, by="document"):
    with (HERE / "asked").open("a") as asked:
        asked.write(json.dumps(queries) + "\\n")
    trouble = (HERE / "trouble").read_text() if (HERE / "trouble").exists() else ""
    for query in queries:
        if trouble and "smooth" in query:
            if trouble == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ConnectionError("429")
    return [found(query, top_k, by) for query in queries]


def found(query, top_k, by):
    pieces = []
    for name, text in TEXTS.items():
        for piece in [text] if by == "document" else text.split(". "):
            pieces.append((len(words(query) & words(piece)), name, piece))
    pieces.sort(key=lambda one: -one[0])
    return [{"doc": name, "text": piece, "score": score} for score, name, piece in pieces[:top_k]]
"""


def asked(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "asked").read_text().splitlines()]
