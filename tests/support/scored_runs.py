"""Reports of rankings that are written down, scored by labels that are written down."""

from collections.abc import Mapping
from pathlib import Path

from ragtrial.cli.outcome import run
from ragtrial.report.model import Report, load_report

Ranking = str
"""Documents with spaces between, best first."""


def scored_report(
    folder: Path, labels: Mapping[str, Mapping[str, int]], runs: Mapping[str, Mapping[str, Ranking]], *options: str
) -> Report:
    """What ``ragtrial score`` writes for these labels and these runs by query."""
    folder.mkdir(parents=True, exist_ok=True)
    qrels = [f"{query} 0 {doc} {grade}" for query, judged in labels.items() for doc, grade in judged.items()]
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n")
    for name, rankings in runs.items():
        lines = [
            f"{query} Q0 {doc} {rank} {1 / rank:.6f} {name}"
            for query, ranking in rankings.items()
            for rank, doc in enumerate(ranking.split(), 1)
        ]
        (folder / f"{name}.run").write_text("\n".join(lines) + "\n")
    files = [str(folder / f"{name}.run") for name in runs]
    code = run(["score", str(folder / "qrels.txt"), *files, "-q", "-o", str(folder / "report"), *options])
    assert code == 0
    return load_report(folder / "report")
