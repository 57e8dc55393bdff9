"""``ragtrial sample``: each distinct question of the spans with the same chance, none twice, none that has labels."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ragtrial import load_prompt_queries
from ragtrial.labelling.sampling import draw_questions
from ragtrial.records import PromptQueries, Query
from small_experiment import CONFIG, Capture, refused, small_experiment, succeeded

TRACES = Path(__file__).parents[1] / "support" / "traces"


def write_spans(path: Path, questions: list[str]) -> Path:
    """Spans of searches for the questions, some of which failed, and the search that each of them asked."""
    lines = []
    for number, question in enumerate(questions):
        attributes = {"openinference.span.kind": "RETRIEVER", "input.value": question}
        code = {"status_code": "ERROR" if number % 3 else "OK"}
        lines.append({"trace_id": "t", "span_id": f"s{number}", "attributes": attributes, **code})
        inner = {**attributes, "input.value": f"rewritten {question}"}
        lines.append({"trace_id": "t", "span_id": f"i{number}", "parent_id": f"s{number}", "attributes": inner})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1), st.sets(st.sampled_from("ABC")), st.integers(1, 9))
def test_no_question_is_drawn_twice_and_none_with_labels_and_the_order_of_spans_is_of_no_consequence(
    tmp_path_factory: pytest.TempPathFactory, asked: list[str], known: set[str], count: int
) -> None:
    path = tmp_path_factory.mktemp("spans") / "spans.jsonl"
    labels = PromptQueries(tuple(Query(name, f"What  is {name}?") for name in known))
    questions = [f"What is {name}?" if number % 2 else f"what is  {name}?\n" for number, name in enumerate(asked)]
    left = {f"what is {name}?" for name in asked if name.upper() not in known}
    if not left:
        return
    drawn, again = (
        draw_questions([write_spans(path, order)], count, 7, labels) for order in (questions, questions[::-1])
    )
    texts = [" ".join(text.lower().split()) for text in drawn.questions.values()]
    assert len(texts) == len(set(texts)) == min(count, len(left))
    assert set(texts) <= left
    assert drawn == again
    distinct = len(set(asked))
    assert (drawn.searches, drawn.distinct, drawn.labelled) == (len(asked), distinct, distinct - len(left))


def test_each_distinct_question_has_the_same_chance_however_often_it_was_asked(tmp_path: Path) -> None:
    path = write_spans(tmp_path / "spans.jsonl", ["often?"] * 40 + [f"once {number}?" for number in range(9)])
    draws = Counter(text for seed in range(400) for text in draw_questions([path], 2, seed, None).questions.values())
    assert len(draws) == 10
    assert max(abs(count - 80) for count in draws.values()) < 32  # four standard deviations of a binomial of 1 in 5


def test_questions_become_labels_that_a_run_searches_and_a_pool_asks_about(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=f"{CONFIG}output: {{directory: results}}\n".replace("prompt_", ""))
    spans = TRACES / "langchain-genai.jsonl"
    done = succeeded(capsys, "sample", spans, TRACES / "phoenix.parquet", "-n", "3", "-o", "queries.json")
    assert done.err == "queries.json: 3 questions of 5 distinct ones, at random (seed 0), of 14 searches in 35 spans\n"
    drawn = load_prompt_queries("queries.json").queries
    assert not any(query.relevant_docs for query in drawn)
    refused(capsys, "sample", spans, "-o", "queries.json", says="already exists")
    rest = succeeded(capsys, "sample", spans, "--labels", "queries.json", "-o", "-")
    assert "; left out: 3 that queries.json has" in rest.err
    assert not {query["text"] for query in rest.json["queries"]} & {query.text for query in drawn}
    assert not any(query.text in done.out + done.err + rest.err for query in drawn)
    succeeded(capsys, "run", "experiment.yaml")
    succeeded(capsys, "pool", "latest", "--random-queries", "2")
    assert len({item["query"] for item in json.loads(Path("worklist.json").read_text())["items"]}) == 2
    known = write_spans(tmp_path / "spans.jsonl", [query.text for query in drawn])
    everything = "no question that is not labelled: all 3 are"
    refused(capsys, "sample", known, "--labels", "queries.json", "-o", "more.json", says=everything)
