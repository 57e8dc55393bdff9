"""Do intervals from few of people's labels and a real, poor judge hold? On labels of which all are known.

    python benchmarks/judge_real.py [--data FOLDER] [--draws 1000] [--only sample,cranfield,scifact]
                                    [--judge words|cosine]

Four BM25 settings are run, and all that they find is judged: by the judge that needs no model (`judge --offline`), the
share of a question's words that a text has, or by thresholds on the cosine of the packaged all-MiniLM-L6-v2. Both err
in their own ways. People's labels of all questions are known, so the difference over all of them is the truth.

`fresh`: an experiment draws as many questions as there are, with replacement, as if they were new ones; the judge has
all, people's labels count for the first n. This is what intervals are made for. `same`: n of the questions themselves
are drawn for people, without replacement, and the truth is the difference over just these questions: intervals are for
new ones, so here they hold more often. `holds` is over single intervals (each of the six pairs alone), `all hold` over
families of all six. `width` is the mean width of single intervals over Student's from people's labels alone. Where
fewer than ten of people's questions differ there is no interval, as elsewhere: `tested` is the share that has one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.judge import JudgeSide, ModelJudgment, judge_side, read_judgments
from ragtrial.comparison.statistics.procedures import TwoPhaseSample, infer_two_phase
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.config import load_config
from ragtrial.evaluation.grading import Scores
from ragtrial.experiment import run_experiment
from ragtrial.labelling.judging import judge_offline, shown, texts_to_judge, write_judgments
from ragtrial.labelling.worklist import TextToGrade
from ragtrial.progress import Silent

HERE = Path(__file__).resolve().parents[1]
SIZES = (15, 30, 60)
BATCH = 50
COSINES = (0.3, 0.45, 0.6)
"""From which cosine each grade is given."""

RETRIEVERS: dict[str, dict[str, object]] = {
    "bm25": {"kind": "bm25"},
    "short": {"kind": "bm25", "k1": 0.4, "b": 0.1},
    "plain": {"kind": "bm25", "stemmer": "none", "stop_words": "none"},
    "titles": {"kind": "bm25", "title_weight": 4},
}


def dataset_of(name: str, data: Path) -> dict[str, str]:
    if name == "sample":
        return {"corpus": str(HERE / "data/support"), "queries": str(HERE / "prompt_queries.json")}
    return {"beir": str(data / name)}


def by_cosine(queries: Sequence[Sequence[TextToGrade]]) -> list[ModelJudgment]:
    """Grades by the cosine of question and text."""
    texts = [text for some in queries for text in some]
    known = list(dict.fromkeys([*(one.question for one in texts), *map(shown, texts)]))
    encoded = np.asarray(SentenceTransformerEmbedder().load()(known), dtype=np.float64)
    vectors = dict(zip(known, encoded / np.linalg.norm(encoded, axis=1, keepdims=True), strict=True))
    return [
        ModelJudgment(query=one.query, doc=one.doc, model="cosine", prompt="0" * 16,
                      grade=int((vectors[one.question] @ vectors[shown(one)] >= np.array(COSINES)).sum()))
        for one in texts
    ]  # fmt: skip


def run(name: str, data: Path, folder: Path, judge: str) -> tuple[ComparisonInput, JudgeSide]:
    """The settings, scored by people's labels, and the judge's side of all questions."""
    config = {
        "experiment": name,
        "dataset": dataset_of(name, data),
        "chunker": {"kind": "document"},
        "retrievers": {key: {**options, "top_k": 10} for key, options in RETRIEVERS.items()},
        "latency": False,
        "output": {"directory": str(folder / "results")},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    report = run_experiment(load_config(folder / "config.yaml"))
    inputs = input_of([report.folder]).limited_to([])
    texts = texts_to_judge(inputs, None, None, 0, None, Silent())
    rows = by_cosine(texts) if judge == "cosine" else judge_offline(texts)
    write_judgments(rows, folder / "judgments.jsonl")
    return inputs, judge_side(inputs, read_judgments(folder / "judgments.jsonl"))


def measure(name: str, inputs: ComparisonInput, side: JudgeSide, draws: int) -> None:
    pairs = inputs.pairs()
    people = np.nan_to_num(inputs.scores(inputs.primary).differences(pairs))
    judge = side.scores(inputs.primary).differences(pairs)
    whole = side.covered
    people, judge = people[:, whole], judge[:, whole]
    truth, count = people.mean(axis=1), people.shape[1]
    rho = np.mean([np.corrcoef(*both)[0, 1] for both in zip(people, judge, strict=True)])
    bias = np.abs(judge.mean(axis=1) - truth).max()
    agreement = side.pairs_of_grades()
    alike = np.mean([one == other for one, other in agreement])
    print(f"{name}: {count} questions, correlation {rho:.2f}, largest bias {bias:.3f}, {alike:.0%} of grades alike")
    for kind in ("fresh", "same"):
        for queries in SIZES:
            if 2 * queries <= count:
                found = experiment(kind, people, judge, truth, queries, draws)
                print(f"| {name} | {kind} | {queries} | {count} | " + " | ".join(found) + " |", flush=True)


def experiment(kind: str, people: Scores, judge: Scores, truth: Scores, queries: int, draws: int) -> list[str]:
    random = np.random.default_rng([queries, people.shape[1]])
    count = people.shape[1]
    is_judged = np.arange(count) < queries
    tested = covered = everything = 0.0
    widths = np.zeros(2)
    for start in range(0, draws, BATCH):
        orders = [
            random.integers(0, count, count) if kind == "fresh" else random.permutation(count) for _ in range(BATCH)
        ]
        samples = [TwoPhaseSample(np.where(is_judged, people[:, one], np.nan), judge[:, one]) for one in orders]
        for sample, two in zip(samples, infer_two_phase(samples, Procedure(flips=1000, seed=start)), strict=True):
            one = two.inference
            everything += not ((one.low > truth) | (one.high < truth)).any()
            for row in np.flatnonzero(~np.isnan(one.low)):
                (alone,) = infer_two_phase([TwoPhaseSample(sample.people[[row]], sample.judge[[row]])], Procedure())
                low, high = alone.inference.low[0], alone.inference.high[0]
                tested += 1
                covered += low <= truth[row] <= high
                own = sample.people[row, :queries]
                widths += (high - low, 2 * -stdtrit(queries - 1, 0.025) * own.std(ddof=1) / np.sqrt(queries))
    if not tested:
        return ["0%", "-", f"{everything / draws:.1%}", "-"]
    share = tested / draws / len(truth)
    return [f"{share:.0%}", f"{covered / tested:.1%}", f"{everything / draws:.1%}", f"{widths[0] / widths[1]:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent / "shared/data", help="BEIR folders")
    parser.add_argument("--judge", choices=["words", "cosine"], default="words")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", default="sample,cranfield,scifact")
    options = parser.parse_args()
    print("| data | draw | n | questions | tested | holds | all hold | width |\n|---|---|--:|--:|--:|--:|--:|--:|")
    for name in options.only.split(","):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            measure(name, *run(name, options.data, Path(folder), options.judge), options.draws)
        print(f"({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
