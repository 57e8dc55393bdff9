"""The report of a small fixed experiment with the real MiniLM, kept in golden/report.json.

`python tests/support/golden_report.py` writes it anew: do so when a change of the numbers is meant, and say why.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from experiments import QUERIES, write_experiment
from ragtrial.experiment import run_experiment

GOLDEN = Path(__file__).parents[1] / "golden" / "report.json"

PROMPT = "Answer {query} with {contexts}."


def fixed_report(folder: Path) -> dict[str, Any]:
    """The report of the experiment as JSON, without what differs from run to run and from machine to machine."""
    experiment = write_experiment(
        folder,
        chunker={"kind": "recursive", "size": 32, "overlap": 8},
        embedder={"kind": "sentence-transformer", "device": "cpu"},
        retrievers={
            "chunks": {"kind": "dense", "top_k": 5},
            "documents": {"kind": "dense", "top_k": 5, "chunker": {"kind": "document"}},
        },
        evaluators={"order_aware": {"metrics": ["rbp(p=0.8)@5"]}},
    )
    labels = {"prompt": PROMPT, "queries": QUERIES}
    (folder / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    written = run_experiment(experiment.config()).folder
    report: dict[str, Any] = json.loads((written / "report.json").read_text(encoding="utf-8"))
    del report["run_id"], report["environment"], report["files"], report["sizes"], report["checksum"]
    for setting in report["settings"]:
        del setting["fingerprint"], setting["timings"], setting["costs"], setting["latency"]
    return report


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        text = json.dumps(fixed_report(Path(scratch)), indent=1, ensure_ascii=False)
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(text + "\n", encoding="utf-8")
