"""Makes result files of other tools, of two small systems each, for the tests that read them.

Each tool runs in an environment of its own, without network and without a model: ``python foreign_scores.py TOOL OUT``.
Systems answer by rules, and metrics are functions of the answers, so that all numbers can be computed again by hand.
promptfoo is started by ``promptfoo eval`` with the config that ``promptfoo`` writes here.
"""

# mypy: ignore-errors
# None of these tools is installed where the types are checked.

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

QUESTIONS = [f"What is the capital of country {number}?" for number in range(12)]
ANSWERS = [f"City {number}" for number in range(12)]


def answers_of(system: str) -> Iterator[str]:
    """The answers of a system: it errs in a fixed share of questions."""
    draw = random.Random(system)
    share = {"plain": 0.5, "reranked": 0.8}[system]
    for answer in ANSWERS:
        yield answer if draw.random() < share else "I do not know"


def score_of(answer: str, expected: str) -> float:
    """Between 0 and 1: the share of characters of the expected answer that are in the answer."""
    return sum(character in answer for character in expected) / len(expected)


def deepeval(out: Path) -> None:
    """A test run as `deepeval test run` and ``evaluate`` leave it, with a metric that fails once."""
    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_RESULTS_FOLDER": str(out / "runs")}
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    class Rule(BaseMetric):
        def __init__(self, name: str, rule: Callable[[Any], float], *, is_lower: bool = False) -> None:
            self.name, self.rule, self.is_lower, self.threshold = name, rule, is_lower, 0.5
            self.async_mode, self.include_reason, self.evaluation_model = False, True, "a rule"
            self.error = None

        @property
        def __name__(self) -> str:
            return self.name

        def measure(self, test_case: Any, *args: Any, **options: Any) -> float:
            if self.name == "Answer Relevancy" and "country 3?" in test_case.input:
                raise ValueError("no answer from the model")
            self.score = self.rule(test_case)
            self.success = self.score <= 0.5 if self.is_lower else self.score >= 0.5
            return self.score

        async def a_measure(self, test_case: Any, *args: Any, **options: Any) -> float:
            return self.measure(test_case)

        def is_successful(self) -> bool:
            return bool(self.success)

    for system in ("plain", "reranked"):
        cases = [
            LLMTestCase(input=question, actual_output=answer, expected_output=expected, retrieval_context=["A text."])
            for question, expected, answer in zip(QUESTIONS, ANSWERS, answers_of(system), strict=True)
        ]
        metrics = [
            Rule("Answer Relevancy", lambda case: score_of(case.actual_output, case.expected_output)),
            Rule("Hallucination", lambda case: 1 - score_of(case.actual_output, case.expected_output), is_lower=True),
        ]
        evaluate(cases, metrics, async_config=AsyncConfig(run_async=False),
                 display_config=DisplayConfig(show_indicator=False, print_results=False),
                 error_config=ErrorConfig(ignore_errors=True))  # fmt: skip
        (newest,) = (out / "runs").glob("*.json")
        shutil.move(newest, out / f"deepeval-{system}.json")


def inspect(out: Path) -> None:
    """Logs of two systems, one a zip (.eval) and one JSON, with two epochs and a sample that failed."""
    import inspect_ai
    import inspect_ai.log
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import TaskState, solver

    @solver
    def answering(system: str) -> Any:
        replies = dict(zip(QUESTIONS, answers_of(system), strict=True))

        async def solve(state: TaskState, _generate: Any) -> TaskState:
            if "country 3?" in state.input_text and system == "plain" and state.epoch == 1:
                raise RuntimeError("the endpoint is away")
            state.output = ModelOutput.from_content("mockllm/model", replies[state.input_text])
            return state

        return solve

    for system, form in (("plain", "json"), ("reranked", "eval")):
        samples = [
            Sample(input=q, target=a, id=f"q{n}") for n, (q, a) in enumerate(zip(QUESTIONS[:4], ANSWERS, strict=False))
        ]
        task = inspect_ai.Task(dataset=samples, solver=[answering(system)], scorer=[includes(), match()], name=system)
        inspect_ai.eval(task, model="mockllm/model", epochs=2, log_dir=str(out / "logs"), log_format=form,
                        fail_on_error=False, display="none")  # fmt: skip
        (file,) = (out / "logs").iterdir()
        log = inspect_ai.log.read_eval_log(str(file))
        for sample in log.samples or ():  # most of a log is the course of events
            sample.events, sample.messages = [], []
            if sample.error:
                sample.error.traceback = sample.error.traceback_ansi = ""
        inspect_ai.log.write_eval_log(log, str(out / f"inspect-{system}.{form}"), form)
        shutil.rmtree(out / "logs")


def ragas(out: Path) -> None:
    """The CSV and the JSON of ``to_pandas``, by metrics that need no model."""
    from ragas import EvaluationDataset, evaluate
    from ragas.metrics import ExactMatch, NonLLMStringSimilarity

    for system in ("plain", "reranked"):
        rows = [
            {"user_input": question, "response": answer, "reference": expected, "retrieved_contexts": ["A text."]}
            for question, expected, answer in zip(QUESTIONS, ANSWERS, answers_of(system), strict=True)
        ]
        result = evaluate(EvaluationDataset.from_list(rows), [ExactMatch(), NonLLMStringSimilarity()])
        frame = result.to_pandas()
        frame.to_csv(out / f"ragas-{system}.csv", index=False)
        frame.to_json(out / f"ragas-{system}.json")


def lm_eval(out: Path) -> None:
    """Samples and results as ``--log_samples`` writes them, of models that answer by rules."""
    import json

    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker

    class Rules(LM):
        def __init__(self, system: str) -> None:
            super().__init__()
            self.replies = dict(zip(QUESTIONS, answers_of(system), strict=True))

        def generate_until(self, requests: Any, **options: Any) -> list[str]:
            return [self.replies[request.args[0]] for request in requests]

        def loglikelihood(self, requests: Any, **options: Any) -> Any:
            raise NotImplementedError

        def loglikelihood_rolling(self, requests: Any, **options: Any) -> Any:
            raise NotImplementedError

    data = out / "capitals.jsonl"
    rows = [{"question": question, "answer": answer} for question, answer in zip(QUESTIONS, ANSWERS, strict=True)]
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = {
        "task": "capitals", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}", "generation_kwargs": {"until": ["\n"]},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    for system in ("plain", "reranked"):
        tracker = EvaluationTracker(output_path=str(out / f"lm-eval-{system}"))
        results = simple_evaluate(Rules(system), tasks=[task], log_samples=True, evaluation_tracker=tracker)
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples(task_name="capitals", samples=samples["capitals"])


def promptfoo(out: Path) -> None:
    """The config and the providers for ``promptfoo eval -c promptfooconfig.json -o promptfoo.json``."""
    import json

    for system in ("plain", "reranked"):
        replies = json.dumps(dict(zip(QUESTIONS, answers_of(system), strict=True)))
        code = f"""const replies = {replies};
module.exports = class {{
  id() {{ return "{system}"; }}
  async callApi(prompt) {{
    if (prompt.includes("country 1?") && "{system}" === "plain") return {{ error: "the endpoint is away" }};
    return {{ output: replies[prompt], cost: 0.001 }};
  }}
}};
"""
        (out / f"{system}.js").write_text(code)
    tests = [
        {"vars": {"question": question}, "assert": [
            {"type": "contains", "value": answer, "metric": "Correct"},
            {"type": "javascript", "value": "output.length / 20", "metric": "Length"},
        ]}
        for question, answer in zip(QUESTIONS[:3], ANSWERS, strict=False)
    ]  # fmt: skip
    config = {"prompts": ["{{question}}"], "providers": ["file://plain.js", "file://reranked.js"], "tests": tests}
    (out / "promptfooconfig.json").write_text(json.dumps(config))


def mteb(out: Path) -> None:
    """The result of a task, which has means alone."""
    from mteb.results import TaskResult

    scores = {"test": [{"hf_subset": "default", "languages": ["eng-Latn"], "main_score": 0.5, "ndcg_at_10": 0.5}]}
    result = TaskResult(dataset_revision="1", task_name="NFCorpus", mteb_version="2.26.24", scores=scores,
                        evaluation_time=1.0)  # fmt: skip
    result.to_disk(out / "mteb.json")


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    globals()[sys.argv[1]](target)
