"""A program that feeds damaged files to a library built with sanitizers: LIBRARY FOLDER ROUNDS."""

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ragtrial.runs.compiled.library as doors
from ragtrial.errors import RagtrialError
from ragtrial.runs.joins import read_run
from ragtrial.runs.qrels import Qrels

QRELS = Qrels.of([(f"q{number}", [(f"d{at}", at) for at in range(number)], False) for number in range(5)])
PIECES = [b" ", b"\n", b"\t", b"\0", b"#", b"\r\n", b"nan", b"9" * 40, b"1e400", b"q1", b"d1", b"\xff", b"x" * 200,
          b"inf", b"."]  # fmt: skip


def damaged(generator: random.Random, columns: int) -> bytes:
    """Sound lines, then changes at random."""
    lines = []
    for _ in range(generator.randrange(60)):
        query, document = f"q{generator.randrange(6)}", f"d{generator.randrange(40)}"
        row = [query, "0", document, str(generator.randrange(9)), repr(generator.uniform(-9, 9)), "t"]
        lines.append(" ".join(row[:columns] if columns != 3 else [query, document, row[3]]))
    text = bytearray("\n".join(lines).encode())
    for _ in range(generator.choice([0, 0, 1, 3, 30])):
        at = generator.randrange(len(text) + 1)
        text[at : at + generator.randrange(4)] = generator.choice(PIECES)
    return bytes(text)


def attempt(work: Callable[[], object]) -> None:
    with suppress(RagtrialError):
        work()


def one_round(generator: random.Random, path: Path) -> None:
    path.write_bytes(damaged(generator, 6))
    order: Any = generator.choice(["score", "trec", "rank", "file"])
    options: dict[str, Any] = {
        "duplicates": generator.choice(["error", "first"]), "lenient": generator.random() < 0.5,
        "threads": generator.choice([1, 2]), "block_size": generator.choice([16, 64, 300, 10000]),
    }  # fmt: skip
    attempt(lambda: read_run(path, QRELS, form="trec", order=order, **options))
    path.write_bytes(damaged(generator, 3))
    attempt(lambda: read_run(path, QRELS, form="msmarco", order="rank", **options))


def main() -> None:
    library, folder, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    loaded = doors.load(library)
    assert loaded is not None
    doors.library = lambda: loaded  # type: ignore[assignment]
    generator = random.Random(5)
    for _ in range(rounds):
        one_round(generator, folder / "a.run")
    print(f"{rounds} rounds")


if __name__ == "__main__":
    main()
