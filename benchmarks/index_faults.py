"""Silent faults of vector indexes, each made to happen in its engine, and what ragtrial says of it.

    python benchmarks/index_faults.py [ENGINE ...]

Each fault is a function in benchmarks/faults/, which makes it happen with the engine's own client, as users come to it,
and then lets ragtrial look: by a run whose warnings are read, by the evidence of an index, or by an option that is
refused. Prints a Markdown table; exits with 1 if a fault does not happen, or is not named in the words that are
expected. Engines that cannot run here are said to be so.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from faults import chroma, faiss, milvus, pgvector, qdrant  # noqa: F401 - each registers its faults
from faults.base import FAULTS, Fault, NotHereError


def row(one: Fault) -> tuple[str, bool]:
    """A row of the table, and whether the fault was seen and named, or cannot be here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            seen = one.reproduce(Path(folder))
        except NotHereError as error:
            return f"| {one.engine} | {one.name} | not here: {error} | |", True
    words = next((line for line in seen.said.splitlines() if re.search(one.expected, line)), None)
    happens = seen.happens if seen.is_there else f"NOT SEEN: {seen.happens}"
    return f"| {one.engine} | {one.name} | {happens} | {words or 'NOT NAMED: ' + seen.said} |", bool(
        seen.is_there and words
    )


def main(engines: list[str]) -> int:
    known = list(dict.fromkeys(one.engine for one in FAULTS))
    if unknown := set(engines) - set(known):
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    print("| engine | fault | seen | ragtrial |\n|---|---|---|---|", flush=True)
    are_fine = True
    for one in FAULTS:
        if not engines or one.engine in engines:
            text, is_fine = row(one)
            are_fine = are_fine and is_fine
            print(text, flush=True)
    return 0 if are_fine else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
