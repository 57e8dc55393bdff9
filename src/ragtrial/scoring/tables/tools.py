"""Scores in the result files of ragas, deepeval, promptfoo, Inspect and lm-eval, and files that have only means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragtrial.dataset.foreign_files import Content
from ragtrial.records import Direction
from ragtrial.scoring.tables.base import NO_VALUE, Score, Source, score_form
from ragtrial.scoring.tables.rows import wide_scores

# ragas 0.4, ragas/metrics: noise_sensitivity is the share of wrong claims, all others are shares or similarities
_RAGAS = (
    "faithfulness, faithfulness_with_hhem, answer_relevancy, response_relevancy, answer_correctness, "
    "answer_similarity, semantic_similarity, factual_correctness, context_precision, context_recall, "
    "context_utilization, context_entity_recall, llm_context_precision_with_reference, "
    "llm_context_precision_without_reference, non_llm_context_precision_with_reference, non_llm_context_recall, "
    "id_based_context_precision, id_based_context_recall, non_llm_string_similarity, nv_accuracy, "
    "nv_context_relevance, nv_response_groundedness, string_present, exact_match, rouge_score, bleu_score, chrf_score, "
    "summary_score, agent_goal_accuracy, tool_call_accuracy, tool_call_f1, topic_adherence"
)


def _is_ragas(content: Content) -> bool:
    return "user_input" in content.keys and bool(content.keys & {"response", "retrieved_contexts", "reference"})


@score_form("ragas", "rows with user_input and metrics", _is_ragas, lower="noise_sensitivity", higher=_RAGAS)
def read_ragas(source: Source) -> Iterator[Score]:
    """The rows of ``EvaluationResult.to_pandas``: one column per metric."""
    yield from wide_scores(source)


# deepeval 4.3, deepeval/metrics: bias, toxicity and hallucination pass at or below their threshold


def _test_cases(content: Content) -> list[Mapping[str, Any]]:
    run = content.value if isinstance(content.value, Mapping) else {}
    inner = run.get("testRunData", run)
    return _objects(inner.get("testCases")) if isinstance(inner, Mapping) else []


@score_form("deepeval", "an object with `testCases`", _test_cases, lower="bias, toxicity, hallucination, pii leakage")
def read_deepeval(source: Source) -> Iterator[Score]:
    """The metrics of each test case. A metric's direction follows from which side of its threshold is a success."""
    for row, case in enumerate(_test_cases(source.content)):
        for metric in _objects(case.get("metricsData")):
            value, threshold, passed = metric.get("score"), metric.get("threshold"), metric.get("success")
            better: Direction | None = None
            if isinstance(value, int | float) and isinstance(threshold, int | float) and value != threshold:
                better = "higher" if bool(passed) == (value > threshold) else "lower"
            error = str(metric.get("error") or "")
            yield Score(
                ("testCases", row), source.name, str(metric.get("name")), value, text=str(case.get("input") or ""),
                row=row + 1, error=error, better=better,
            )  # fmt: skip


# promptfoo 0.123, src/types: ResultFailureReason.ERROR is 2

_ERROR = 2


def _is_promptfoo(content: Content) -> bool:
    return any("promptIdx" in result for result in _promptfoo_results(content))


def _promptfoo_results(content: Content) -> list[Mapping[str, Any]]:
    value = content.value if isinstance(content.value, Mapping) else {}
    results = value.get("results")
    return _objects(results.get("results") if isinstance(results, Mapping) else results)


@score_form("promptfoo", "an object with `results.results`", _is_promptfoo, lower="latencyms", higher="score")
def read_promptfoo(source: Source) -> Iterator[Score]:
    """The score and the named scores of each result. Questions are test cases with the same variables.

    A setting is a provider, and its prompt if there are several.
    """
    results = _promptfoo_results(source.content)
    prompts = {_prompt(result) for result in results}
    for result in results:
        provider = result.get("provider")
        about = provider if isinstance(provider, Mapping) else {"id": provider}
        setting = str(about.get("label") or about.get("id"))
        setting += f", {_prompt(result)}" if len(prompts) > 1 else ""
        variables = result.get("vars") if isinstance(result.get("vars"), Mapping) else {}
        text = " ".join(str(value) for _, value in sorted(dict(variables or {}).items()))
        error = str(result.get("error") or "error") if result.get("failureReason") == _ERROR else ""
        named = result.get("namedScores")
        scores = {"score": result.get("score"), **(named if isinstance(named, Mapping) else {})}
        number = result.get("testIdx")
        row = number if isinstance(number, int) else 0
        for metric, value in scores.items():
            yield Score(("results", row), setting, metric, value, text=text, row=row + 1, error=error)


def _prompt(result: Mapping[str, Any]) -> str:
    prompt = result.get("prompt")
    return str(prompt.get("label")) if isinstance(prompt, Mapping) else ""


# Inspect 0.3, inspect_ai/scorer: value_to_float

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def _is_inspect(content: Content) -> bool:
    value = content.value
    return isinstance(value, Mapping) and isinstance(value.get("eval"), Mapping) and "samples" in value


@score_form(
    "inspect",
    "a log with `eval` and `samples`",
    _is_inspect,
    higher="includes, match, exact, choice, pattern, answer, f1, model_graded_qa, model_graded_fact, math",
)
def read_inspect(source: Source) -> Iterator[Score]:
    """The scores of each sample and epoch. A sample that failed has none of the metrics of the others."""
    log = dict(source.content.value)  # type: ignore[call-overload]  # as it was recognised
    samples = _objects(log["samples"])
    setting = f"{log['eval'].get('model')} ({log['eval'].get('task')})"
    metrics = dict.fromkeys(name for sample in samples for name, _ in _inspect_values(sample))
    for row, sample in enumerate(samples):
        text = sample.get("input")
        about: dict[str, Any] = {"id": str(sample.get("id")), "text": text if isinstance(text, str) else ""}
        values = dict(_inspect_values(sample))
        failure = sample.get("error")
        error = str(failure.get("message") if isinstance(failure, Mapping) else failure or "")
        for metric in metrics:
            missing = error or ("" if metric in values else NO_VALUE)
            yield Score(("samples", row), setting, metric, values.get(metric), error=missing, **about)


def _inspect_values(sample: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The values of all scorers; those of a scorer with several are called ``scorer/name``."""
    scores = sample.get("scores")
    for scorer, score in scores.items() if isinstance(scores, Mapping) else ():
        value = score.get("value") if isinstance(score, Mapping) else None
        for name, own in value.items() if isinstance(value, Mapping) else (("", value),):
            if not isinstance(own, list):
                yield f"{scorer}/{name}".rstrip("/"), _LETTERS.get(own, own) if isinstance(own, str) else own


# lm-eval 0.4, lm_eval/api/metrics.py

_LM_EVAL = "acc, acc_norm, acc_mutual_info, acc_bytes, exact_match, likelihood, mcc, f1, acc_all, em"


@score_form(
    "lm-eval",
    "JSON lines with doc_id and `metrics`",
    lambda content: {"doc_id", "metrics"} <= content.keys,
    lower="brier_score, bits_per_byte, byte_perplexity, word_perplexity, ter",
    higher=_LM_EVAL,
)
def read_lm_eval(source: Source) -> Iterator[Score]:
    """The metrics of each sample, called as in the results file. A setting is called like the folder of its file."""
    folder = Path(source.content.file).resolve().parent.name
    for row, sample in enumerate(_objects(source.content.value)):
        names = sample.get("metrics")
        for name in map(str, names if isinstance(names, list) else ()):
            value, suffix = sample.get(name), sample.get("filter", "none")
            if not isinstance(value, list):  # the part of a corpus metric
                metric = name if suffix == "none" else f"{name},{suffix}"
                name_of = f"{sample.get('doc_id')}-{str(sample.get('doc_hash'))[:8]}"
                yield Score((row,), folder, metric, value, id=name_of)


# files that have no score per question

_MEANS = {
    "mteb": ({"task_name", "scores"}, "MTEB keeps no score per question. Write predictions (`prediction_folder`), and "
             "score these: ragtrial score QRELS PREDICTIONS"),
    "lm-eval-results": ({"results", "higher_is_better"}, "Name the samples of the same run, which `--log_samples` "
                        "writes: samples_*.jsonl"),
}  # fmt: skip


def _of_means(content: Content) -> str:
    keys = set(content.value) if isinstance(content.value, Mapping) else set()
    return next((advice for needed, advice in _MEANS.values() if needed <= keys), "")


@score_form("means", "means of MTEB or lm-eval, without scores per question", lambda content: bool(_of_means(content)))
def read_means(source: Source) -> Iterator[Score]:
    """No score: a fault that names the file to use."""
    source.content.fault((), f"has means, and a comparison needs a score per question. {_of_means(source.content)}.")
    yield from ()


def _objects(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list; nothing for any other value."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
