"""How the time of readers and chunkers grows with the size of texts that were made to slow them down.

    python benchmarks/hostile_texts.py [--sizes 16 64 256] [--limit 20] [--parts html sentence ...]

Every part reads every pattern at the sizes, in kilobytes, in a process of its own that is stopped at the limit of
seconds. What takes linear time takes four times as long for four times the text; the table shows where the last step
took more than eight times as long, or more seconds than `--slow`, and the worst of each part. The exit code is 1 if
any did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty

from ragtrial.components.chunkers.base import CHUNKERS, Ruler
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.components.tokenizers import Words
from ragtrial.dataset.documents import read_documents
from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageQuery, locate_all
from ragtrial.dataset.markdown import Headings
from ragtrial.dataset.texts import normalised
from ragtrial.errors import CorpusError

PIECES = [
    *("<a ", "<!--", "<![", "<!", "<?", "</", "<", "<p>", "<div>", "<div><", "<b>", "<li>", "<svg>", "<table><tr><td>"),
    *('<a href="', "<script>", "<title>", "<!-- a -->", "<b>x</i>", "&", "&#", "http://a.", "[a]", "[", "[a](", "!["),
    *("- a\n", "* ", "> ", "> > ", "1. a\n", "  - a\n", "\t- a\n", "#", "# a\n", "a\n=\n", "a\n-\n", "---\n", "```\n"),
    *("~~~\n```\n", "| a ", "|-|\n", "| a | b |\n|-|-|\n", "*a ", "_a", "`", "\\", "(", ")", "{", "}", "-", "--", "="),
    *(".", "a.", ". ", "a. B ", "...", '!"', '"a" ', "'", '"', "e.g. ", "Dr. ", "1.", "a) ", "[1]", "A.B.", "。"),
    *("\u0301", "a\u0301\u0316", "\u0301\u0316", "\u1100\u1161", "ß", "İ", "ﷺ", "\U0001f600", "\u00a0", "\u2028"),
    *(" ", "\n", "\n\n", " \n", "\t", "\r", "\r\n", "\0", "a", "a ", "a\n", "a\n\n", "ab", "\\n"),
    *("def a():\n", "class A:\n", "if a:\n ", "(\n", "a = [", '"""', "a(", "lambda: "),
]


def _read(suffix: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / f"a{suffix}").write_text(text, encoding="utf-8")
            with suppress(CorpusError):  # refused by name
                return list(read_documents(Path(folder)))
            return None

    return read


def _chunk(kind: str, **options: object) -> Callable[[str], object]:
    chunker = CHUNKERS[kind].model_validate({"kind": kind, **options})

    def split(text: str) -> object:
        text = normalised(text)
        if options.get("unit") == "characters":
            return chunker.split(text, Ruler(range(len(text))))
        (starts,) = Words().starts([text])
        return chunker.split(text, Ruler(starts, 0, Words().alone))

    return split


def _locate(text: str) -> object:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as corpus:
        text = normalised(text)
        (Path(corpus) / "a.txt").write_text(text, encoding="utf-8")
        Library.write(Path(corpus), Path(folder))
        some = text[len(text) // 2 :][:500]
        sought = [PassageQuery(some), PassageQuery(some[:250] + "x" + some[250:]), PassageQuery(some.upper())]
        return locate_all(sought, Library(Path(folder)), fuzzy=0.8)


_SMALL = {"unit": "characters", "size": 300, "overlap": 60}
PARTS: dict[str, Callable[[str], object]] = {
    "html": _read(".html"),
    "markdown file": _read(".md"),
    "text file": _read(".txt"),
    "headings": lambda text: Headings(normalised(text)),
    "sentences": lambda text: sentences(normalised(text)),
    "recursive": _chunk("recursive", **_SMALL),
    "recursive words": _chunk("recursive", size=60, overlap=12),
    "fixed": _chunk("fixed", **_SMALL),
    "sentence": _chunk("sentence", **_SMALL),
    "sentence words": _chunk("sentence", size=60, overlap=12),
    "markdown": _chunk("markdown", **_SMALL),
    "markdown words": _chunk("markdown", size=60, overlap=12),
    "code": _chunk("code", language="python", **_SMALL),
    "passages": _locate,
}


def _measured(part: str, text: str, told: multiprocessing.Queue[float]) -> None:
    began = time.process_time()
    PARTS[part](text)
    told.put(time.process_time() - began)


def seconds(part: str, text: str, limit: float) -> float | None:
    """Seconds of processor time, None for more than ``limit``."""
    told: multiprocessing.Queue[float] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_measured, args=(part, text, told), daemon=True)
    process.start()
    try:
        return told.get(timeout=limit)
    except Empty:
        return None
    finally:
        process.kill()
        process.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--slow", type=float, default=5.0)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    faults = 0
    for part in options.parts:
        worst = (0.0, "")
        for piece in PIECES:
            taken: list[float | None] = []
            for size in options.sizes:
                text = piece * (size * 1_000 // len(piece.encode()) + 1)
                taken.append(seconds(part, text, options.limit))
                if taken[-1] is None:
                    break
            last, before = taken[-1], taken[-2] if len(taken) > 1 else None
            grows = last is not None and before is not None and last > max(8 * before, 0.2)
            shown = " ".join("too long" if one is None else f"{one:.3f}" for one in taken)
            if last is None or grows or last > options.slow:
                faults += 1
                print(f"{part:16} {piece!r:24} {shown}", flush=True)
            elif last > worst[0]:
                worst = (last, f"{piece!r} {shown}")
        print(f"{part:16} worst of the others: {worst[1]}", flush=True)
    print(f"{faults} too slow")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
