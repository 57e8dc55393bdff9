"""From a search to a labelled query: by key in a terminal, and by option in a script."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from corpora import write_beir, write_rows
from ragtrial.config import load_config
from ragtrial.labelling.edits import AnswerSheet, new_id
from ragtrial.labelling.label_files import OverlayText
from ragtrial.progress import Silent
from small_experiment import CONFIG, LABELS, Capture, ragtrial, refused, small_experiment, succeeded
from terminals import PATIENCE, in_terminal

TEXT = "how many days do parcels take"


def labels() -> list[dict[str, Any]]:
    return list(json.loads(Path("prompt_queries.json").read_text(encoding="utf-8"))["queries"])


def order(capsys: Capture, text: str = TEXT) -> list[str]:
    """The documents in the order in which they are found."""
    found = ragtrial(capsys, "search", "experiment.yaml", text, "--json").json
    return [hit["doc"] for hit in found["hits"]]


def test_graded_hits_become_a_new_query_with_judgments(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    documents = order(capsys)
    arguments = ["search", "experiment.yaml", TEXT, "--grade", "1=3", "--grade", "3=0", "--tag", "new", "--who", "ada"]
    made = succeeded(capsys, *arguments)
    assert made.out.splitlines()[-1] == (
        "prompt_queries.json: new query 'how-many-days-do-parcels-take', 2 judgments written; it has 3 queries"
    )
    assert labels() == [
        *LABELS["queries"],
        {"id": "how-many-days-do-parcels-take", "text": TEXT, "tags": ["new"],
         "relevant_docs": [{"doc": documents[0], "relevance": 3}, {"doc": documents[2], "relevance": 0}]},
    ]  # fmt: skip
    rows = [json.loads(line) for line in Path("prompt_queries.history.jsonl").read_text().splitlines()]
    assert [(row["who"], row["action"]) for row in rows] == [("ada", "query"), ("ada", "add"), ("ada", "add")]
    succeeded(capsys, "validate", "experiment.yaml", "-q")


def test_labels_that_people_gave_stay_when_their_table_is_converted_again(tmp_path: Path, capsys: Capture) -> None:
    """Also if rows before theirs give their questions other ids; labels that nobody gave are replaced, with a note."""
    small_experiment(tmp_path)
    convert = ["labels", "convert", "q.csv", "--corpus", "documents", "-o", "prompt_queries.json", "--force"]
    Path("q.csv").write_text("question,document\nbroken?,warranty.md\nshipped?,warranty.md\n", encoding="utf-8")
    assert "left out labels that are not in q.csv, of " in succeeded(capsys, *convert).err
    documents = order(capsys, "shipped?")
    succeeded(capsys, "search", "experiment.yaml", "shipped?", "--grade", "1=3", "--grade", "2=2", "--who", "a\u2028b")
    succeeded(capsys, "search", "experiment.yaml", TEXT, "--grade", "1=1")
    before = {query["text"]: query["relevant_docs"] for query in labels()}
    rows = "question,document\nnew?,returns.md\nbroken?,returns.md\nshipped?,warranty.md\n"
    Path("q.csv").write_text(rows, encoding="utf-8")
    made = succeeded(capsys, *convert)
    after = {query["text"]: query["relevant_docs"] for query in labels()}
    returned = [{"doc": "returns.md", "relevance": 1}]
    assert after == {"new?": returned, "broken?": returned, "shipped?": before["shipped?"], TEXT: before[TEXT]}
    graded = {label["doc"]: label["relevance"] for label in after["shipped?"]}
    assert graded == {"warranty.md": 1, documents[0]: 3, documents[1]: 2}
    assert made.err.splitlines()[-2:] == [
        "prompt_queries.json: kept what people changed in 2 queries: 'q2', 'how-many-days-do-parcels-take'.",
        "prompt_queries.json: left out labels that are not in q.csv, of 'q1'.",
    ]
    with Path("prompt_queries.history.jsonl").open("a", encoding="utf-8") as history:
        history.write('{"query": "torn')  # by a full disk
    Path("q.csv").write_text(rows.replace("warranty.md", "shipping.txt"), encoding="utf-8")
    assert "left out labels that are not in q.csv, of 'q3'" in succeeded(capsys, *convert).err  # a corrected row
    assert [query["relevant_docs"] for query in labels()][2] == before["shipped?"][1:]
    text = Path("prompt_queries.json").read_text(encoding="utf-8")
    Path("q.csv").write_text("id,question,document\nq3,another?,returns.md\n", encoding="utf-8")
    assert ragtrial(capsys, *convert).code == 2
    assert Path("prompt_queries.json").read_text(encoding="utf-8") == text
    Path("q.csv").write_text("question,document\nnew?,returns.md\n", encoding="utf-8")
    Path("prompt_queries.json").write_text("none", encoding="utf-8")
    assert "kept" not in succeeded(capsys, *convert).err


def test_a_query_that_is_labelled_gets_more_judgments_and_shows_those_it_has(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    text = LABELS["queries"][1]["text"]  # type: ignore[index]
    documents = order(capsys, text)
    made = succeeded(capsys, "search", "experiment.yaml", text, "--label", "--grade", "1=3", "--grade", "2=1", "--json")
    assert [hit["grade"] for hit in made.json["hits"]] == [1 if doc == "warranty.md" else None for doc in documents]
    assert made.json["labels"]["query"] == "q2"
    assert made.json["labels"]["is_new"] is False
    assert {label["doc"]: label["relevance"] for label in labels()[1]["relevant_docs"]} == {
        documents[0]: 3, documents[1]: 1, "warranty.md": 3 if documents[0] == "warranty.md" else 1,
    }  # fmt: skip
    named = "error: the text is that of query 'q2'; it has an id, and its tags stay its own.\n"
    refused(capsys, "search", "experiment.yaml", text, "--grade", "1=3", "--id", "mine", says=named)


def test_graded_hits_are_put_into_groups(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    text = LABELS["queries"][1]["text"]  # type: ignore[index]
    arguments = ["search", "experiment.yaml", text, "--grade", "warranty.md=1", "--grade", "returns.md=1"]
    for flag in ("--group", "--quote"):
        without = ["search", "experiment.yaml", text, *["--label"] * (flag == "--quote"), flag, "1=a"]
        refused(capsys, *without, says=f"{flag} needs --grade")
    made = succeeded(capsys, *arguments, "--group", "warranty.md=long", "--group", "returns.md=long", "--json")
    assert sorted(change["action"] for change in made.json["labels"]["changes"]) == ["add", "change"]
    grouped = [{"doc": "warranty.md", "group": "long"}, {"doc": "returns.md", "relevance": 1, "group": "long"}]
    assert labels()[1]["relevant_docs"] == grouped
    alone = [*arguments[:3], "--grade", "1=1", "--group", "2=x", "-q"]
    refused(capsys, *alone, says="the group of hit 2 comes without a grade")
    succeeded(capsys, *arguments[:4], "warranty.md=2", "-q")
    assert labels()[1]["relevant_docs"] == [{"doc": "warranty.md", "group": "long", "relevance": 2}, grouped[1]]


def test_passages_are_added_with_their_characters_or_as_contents(tmp_path: Path, capsys: Capture) -> None:
    config = CONFIG.replace("{kind: document}", "{kind: fixed, size: 12, overlap: 0, unit: characters}")
    small_experiment(tmp_path, config=config.replace("3}\nlatency", "9}\nevaluators: {unit: span}\nlatency"))
    found = ragtrial(capsys, "search", "experiment.yaml", "arrive", "--json").json
    hit = next(hit for hit in found["hits"] if hit["start"] > 0)
    succeeded(capsys, "search", "experiment.yaml", "arrive", "--grade", f"{hit['rank']}=1")
    (label,) = labels()[2]["relevant_docs"]
    text = (tmp_path / "documents" / hit["doc"]).read_text(encoding="utf-8")
    assert text[label["start"] : label["end"]] == label["quote"] == hit["text"].strip()
    across = {"doc": "shipping.txt", "relevance": 1, "quote": "take two days", "start": 8, "end": 21}  # two hits
    queries = {"queries": [{"id": 1, "text": TEXT, "relevant_docs": [across]}]}
    Path("prompt_queries.json").write_text(json.dumps(queries))
    found = ragtrial(capsys, "search", "experiment.yaml", TEXT, "--json").json["hits"]
    ranks = {hit["start"]: hit["rank"] for hit in found if hit["doc"] == "shipping.txt"}
    for marks in ([f"{ranks[0]}=2", f"{ranks[13]}=0"], [f"{ranks[13]}=0"]):  # a part of a passage does not lower it
        succeeded(capsys, "search", "experiment.yaml", TEXT, *(word for mark in marks for word in ("--grade", mark)))
        assert labels()[0]["relevant_docs"] == [across | {"relevance": 2}]
    config = CONFIG.replace("queries: prompt_queries.json}", "queries: prompt_queries.json, match: content}")
    by_content = {"queries": [{"id": 1, "text": "x", "relevant_docs": [{"doc": "Return any item"}]}]}
    small_experiment(tmp_path, config=config, labels=by_content)
    place = order(capsys).index("shipping.txt") + 1
    succeeded(capsys, "search", "experiment.yaml", TEXT, "--grade", f"{place}=2")
    assert labels()[1]["relevant_docs"] == [{"doc": "Parcels take two days to arrive.", "relevance": 2}]


SWEEP = """
experiment: sweep
dataset: {corpus: documents, queries: prompt_queries.json}
chunker: {kind: fixed, size: 80, overlap: 20, unit: characters}
sweep: {matrix: {chunker.size: [80, 160, 320]}}
retrievers:
  plain: {kind: bm25, top_k: 20}
  saturated: {kind: bm25, k1: 0.5, top_k: 20}
  long: {kind: bm25, b: 0.2, top_k: 20}
evaluators: {unit: span}
"""
RULES = "".join(f"Rule {n}. Parcels of class {n} take {n} days, and nobody pays for them.\n\n" for n in range(40))
ASKED = "how many days do parcels of class 7 take"


def test_search_and_grade_number_the_same_hits(tmp_path: Path, capsys: Capture) -> None:
    """Also where nine settings rank chunks of three sizes: `search` shows what the number means to `--grade`."""
    small_experiment(tmp_path, config=SWEEP)
    Path("documents", "long.md").write_text(RULES)
    shown = succeeded(capsys, "search", "experiment.yaml", ASKED)
    assert [line.split()[0] for line in shown.out.splitlines() if " grade -" in line] == [str(n) for n in range(1, 11)]
    second = next(line for line in shown.out.splitlines() if line.startswith("  2  grade -"))
    graded = succeeded(capsys, "search", "experiment.yaml", ASKED, "--grade", "2=3")
    assert graded.out.splitlines()[0] == second.replace("grade -", "grade 3")
    (label,) = labels()[-1]["relevant_docs"]
    start, end = map(int, second.partition(" [")[2].rstrip("]").split(":"))
    assert (label["doc"], label["quote"], label["relevance"]) == ("long.md", RULES[start:end].strip(), 3)


def test_labels_of_whole_hits_are_counted_where_chunks_differ(tmp_path: Path, capsys: Capture) -> None:
    """They favour the chunks that they were made from; a passage favours none."""
    small_experiment(tmp_path, config=SWEEP)
    Path("prompt_queries.json").unlink()
    Path("documents", "long.md").write_text(RULES)
    small = ["--setting", "plain-size80", "--grade", "1=3"]
    succeeded(capsys, "search", "experiment.yaml", "parcels of class 7", *small)
    succeeded(capsys, "search", "experiment.yaml", "thirty days", *small, "--quote", "1=thirty days")
    ran = succeeded(capsys, "run", "experiment.yaml")
    said = "1 of 2 labelled passages is exactly a chunk of some settings (plain-size80), not of all"
    assert " ".join(ran.err.split()).count(said) == 1
    assert " ".join(ragtrial(capsys, "compare").err.split()).count(said) == 1


def test_hits_over_the_same_text_are_one_item(tmp_path: Path, capsys: Capture) -> None:
    """Nine settings, 180 hits, one document of 2,880 characters: items share less than half of their text."""
    small_experiment(tmp_path, config=SWEEP)
    Path("documents", "long.md").write_text(RULES)
    found = ragtrial(capsys, "search", "experiment.yaml", ASKED, "--top", "1000", "--json").json
    assert sum(len(one["hits"]) for one in found["settings"]) > 100
    items = [hit for hit in found["hits"] if hit["doc"] == "long.md"]
    assert len(items) < 30
    for hit in items:
        assert hit["text"] == RULES[hit["start"] : hit["end"]]
    assert sum(len(hit["found_by"]) > 1 for hit in items) > len(items) / 2
    top = ragtrial(capsys, "search", "experiment.yaml", ASKED, "--json").json["hits"]
    assert top == found["hits"][:10]


def test_a_document_may_be_named_instead_of_a_number(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    search = ["search", "experiment.yaml", TEXT, "-q"]
    made = succeeded(capsys, *search, "--grade", "shipping.txt=2")
    assert {"doc": "shipping.txt", "relevance": 2} in labels()[-1]["relevant_docs"]
    assert "grade 2  shipping.txt" in made.out
    place = order(capsys).index("shipping.txt") + 1
    other = ragtrial(capsys, *search, "--grade", "shipping.txt=2", "--grade", f"{place}=1")
    assert (other.code, other.out, other.err) == (2, "", f"error: hit {place} is graded twice.\n")


def test_judgments_of_a_beir_folder_go_into_the_overlay(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    write_beir(tmp_path / "data", {"d1": "take 1", "d2": "take 2"}, {"b1": TEXT}, "b1\td1\t1\n")
    config = CONFIG.replace("corpus: documents, queries: prompt_queries.json", "beir: data, overlay: mine.tsv")
    Path("experiment.yaml").write_text(config)
    assert not AnswerSheet(load_config("experiment.yaml"), TEXT, Silent()).has_groups
    succeeded(capsys, "search", "experiment.yaml", TEXT, "--grade", "1=2", "--grade", "2=0", "-q")
    assert sorted(OverlayText.read("mine.tsv").judged.values()) == [0, 2]
    succeeded(capsys, "run", "experiment.yaml", "-q")
    other = "has no judged query 'something else', and queries cannot be added to a BEIR folder"
    refused(capsys, "search", "experiment.yaml", "something else", "--grade", "1=2", "-q", says=other)
    Path("experiment.yaml").write_text(config.replace(", overlay: mine.tsv", ""))
    without = "is a BEIR folder and stays as it is; convert it, or put labels of your own into dataset.overlay"
    refused(capsys, "search", "experiment.yaml", TEXT, "--grade", "1=2", "-q", says=without)


def test_a_search_of_a_beir_folder_lists_documents_for_passages_too(tmp_path: Path, capsys: Capture) -> None:
    """Qrels judge documents, so several chunks of one are one thing to grade."""
    texts = dict.fromkeys(("d1", "d2"), "Parcels take two days to arrive. " * 20)
    write_beir(tmp_path / "data", texts, {"b1": TEXT}, "b1\td1\t1\n")
    config = CONFIG.replace("corpus: documents, queries: prompt_queries.json", "beir: data").replace(
        "{kind: document}", "{kind: fixed, size: 60, overlap: 0, unit: characters}")  # fmt: skip
    small_experiment(tmp_path, config=config.replace("latency", "evaluators: {unit: span}\nlatency"))
    found = ragtrial(capsys, "search", "experiment.yaml", TEXT, "--json").json
    assert sorted(hit["doc"] for hit in found["hits"]) == ["d1", "d2"]


@given(st.text(max_size=60), st.sets(st.text(max_size=8), max_size=5))
def test_an_id_is_made_of_words_and_is_never_taken(text: str, taken: set[str]) -> None:
    first = new_id(text, taken)
    second = new_id(text, {*taken, first})
    assert first not in taken
    assert second not in {*taken, first}
    assert first.strip()
    assert not any(mark.isspace() for mark in first)


def test_an_id_is_the_first_words_of_the_text() -> None:
    assert new_id("How long can I send something back?", set()) == "how-long-can-i-send-something"
    assert new_id("Größe?", {"größe"}) == "grösse"
    assert new_id("???", {"query"}) == "query-2"


def test_hits_are_graded_by_key_in_a_terminal(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    documents = order(capsys)
    with in_terminal("search", "experiment.yaml", TEXT, "--label") as typed:
        typed.type(
            ("hit 1, 0 graded:", "3"), ("hit 2, 1 graded:", "1"), ("hit 3, 2 graded:", "u"),
            ("hit 2, 1 graded:", "x"), ("hit 2, 1 graded:", " "), ("hit 3, 1 graded:", "0"),
        )  # fmt: skip
        typed.await_text("2 judgments written")
        assert typed.ended() == 0
    graded = {label["doc"]: label["relevance"] for label in labels()[2]["relevant_docs"]}
    assert graded == {documents[0]: 3, documents[2]: 0}


@pytest.mark.parametrize("group", [None, "days"])
def test_a_hit_that_answers_as_an_earlier_one_gets_a_group_with_it(
    tmp_path: Path, capsys: Capture, group: str | None
) -> None:
    """The group of the earlier hit's label, or a new one; a hit with grade 0 has none."""
    small_experiment(tmp_path)
    first, second, third = order(capsys)
    label = {"doc": first} if group is None else {"doc": first, "group": group}
    queries = {"queries": [{"id": "q3", "text": TEXT, "relevant_docs": [label]}]}
    Path("prompt_queries.json").write_text(json.dumps(queries))
    with in_terminal("search", "experiment.yaml", TEXT, "--label") as typed:
        typed.type(("hit 1, 0 graded:", "3"), ("hit 2, 1 graded:", "g"))
        for line, following in ((b"2\n", "no hit 2 has a grade above 0"), (b"\n", "hit 2"), (b"1\n", "hit 2")):
            typed.await_text("gives the same answer")
            os.write(typed.terminal, line)
            typed.await_text(following)
            typed.type(("1 graded:", "1" if line == b"1\n" else "g"))
        typed.type(("hit 3, 2 graded:", "g"))
        typed.await_text("gives the same answer")
        os.write(typed.terminal, b"1\n")
        typed.type(("hit 3, 2 graded:", "0"))
        typed.await_text("3 judgments written")
        assert typed.ended() == 0
    name = group or f"same as {first}"
    assert labels()[0]["relevant_docs"] == [
        {"doc": first, "relevance": 3, "group": name}, {"doc": second, "relevance": 1, "group": name},
        {"doc": third, "relevance": 0}]  # fmt: skip


def test_labels_in_an_order_get_no_group_by_key(tmp_path: Path) -> None:
    label = {"id": "q1", "text": TEXT, "relevant_docs": [{"doc": "shipping.txt"}], "ordered": True}
    small_experiment(tmp_path, labels={"queries": [label]})
    with in_terminal("search", "experiment.yaml", TEXT, "--label") as typed:
        assert "same answer" not in typed.await_text("hit 1, 0 graded:")
        typed.await_key()
        os.write(typed.terminal, b"g")
        typed.type(("hit 1, 0 graded:", "q"))
        assert typed.ended() == 2


def test_the_passage_of_a_graded_hit_is_asked_for_and_must_be_in_the_text(tmp_path: Path) -> None:
    """Its begin and end are enough; return keeps the whole text, u undoes the grade, and a wrong hit has no passage."""
    quoting = {"queries": [{"id": 1, "text": "x", "relevant_docs": [{"doc": "returns.md", "quote": "thirty days"}]}]}
    small_experiment(tmp_path, labels=quoting)
    with in_terminal("search", "experiment.yaml", "parcels take two days", "--label") as typed:
        for grade, line in (("2", b"u\n"), ("3", b"four days\n"), ("", b"Parcels ... two days\n")):
            typed.type(*[("hit 1, 0 graded:", grade)] * bool(grade))
            typed.await_text("the passage that answers")
            os.write(typed.terminal, line)
        typed.type(("hit 2, 1 graded:", "1"))
        typed.await_text("the passage that answers")
        os.write(typed.terminal, b"\n")
        typed.type(("hit 3, 2 graded:", "0"))
        typed.await_text("3 judgments written")
        assert typed.ended() == 0
    first, *others = labels()[1]["relevant_docs"]
    assert (first["relevance"], first["quote"], first["start"]) == (3, "Parcels take two days", 0)
    for label in others:
        assert label["quote"] == Path("documents", label["doc"]).read_text(encoding="utf-8").strip()


BOTH = """
experiment: both
dataset: {corpus: documents, queries: prompt_queries.json}
chunker: {kind: document}
embedder: {kind: custom, function: "model:embed"}
store: {kind: exact}
retrievers:
  dense: {kind: dense}
  words: {kind: bm25}
"""


GATED = """
import contextlib, socket

def embed(texts):
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as gate:
        gate.connect("gate")
        gate.recv(1)  # waits until the gate opens; then there is none
    return {vectors}
"""


@contextmanager
def gate_of_model(vectors: str) -> Iterator[Callable[[], AbstractContextManager[object]]]:
    """The model of BOTH waits at a gate until the block of what this gives ends, which begins when it has come there.

    It then gives these vectors.
    """
    Path("model.py").write_text(GATED.format(vectors=vectors))
    with socket.socket(socket.AF_UNIX) as gate:
        gate.settimeout(PATIENCE)
        gate.bind("gate")
        gate.listen()
        yield lambda: gate.accept()[0]


@pytest.mark.parametrize("fails", [False, True])
def test_hits_by_words_are_graded_while_a_model_is_at_work(tmp_path: Path, *, fails: bool) -> None:
    """The model is asked before the first grade; its other hits follow, and if it fails, the grades so far are kept."""
    small_experiment(tmp_path, config=BOTH)
    vectors = "1 / 0" if fails else "[[1.0, len(text)] for text in texts]"
    with in_terminal("search", "experiment.yaml", "parcels", "--label") as typed:
        with gate_of_model(vectors) as arrived:
            typed.await_text("shipping.txt")
            with arrived():
                typed.await_text("hit 1, 0 graded:")
        typed.await_key()
        os.write(typed.terminal, b"3")
        if fails:
            typed.await_text("There are no hits of dense: ")
        else:
            typed.type(("hit 2, 1 graded:", "0"), ("hit 3, 2 graded:", "q"))
        typed.await_text("1 judgment written" if fails else "2 judgments written")
        assert typed.ended() == 0


def test_a_search_ends_while_a_model_is_at_work(tmp_path: Path) -> None:
    small_experiment(tmp_path, config=BOTH)
    with gate_of_model("[]") as arrived:
        for key in ("", "\x03"):
            with in_terminal("search", "experiment.yaml", "parcels", "--label") as typed, arrived():
                typed.type(("hit 1, 0 graded:", key or "3"))
                if not key:
                    os.kill(typed.process.pid, signal.SIGINT)
                typed.await_text("stopped: nothing was written, and no grade of this search is kept.")
                assert typed.ended() == 130
            assert labels() == LABELS["queries"]
        with in_terminal("search", "experiment.yaml", "parcels return", "--label") as typed, arrived():
            typed.type(("hit 1, 0 graded:", "3"), ("hit 2, 1 graded:", "q"))
            typed.await_text("1 judgment written")
            assert typed.ended() == 0


@pytest.mark.parametrize(("old", "new"), [(0, 2), (3, 1), (2, 2)])
def test_a_whole_document_gets_the_grade_of_its_passage(tmp_path: Path, capsys: Capture, old: int, new: int) -> None:
    """Else labels that quote here and name documents there refuse all grades. A labelled passage gets its hit's."""
    text = "Return any item within thirty days"
    rows = [{"doc": "returns.md", "relevance": old}, {"doc": "shipping.txt", "relevance": 1, "quote": "two days"},
            {"doc": "warranty.md", "quote": "six months"}]  # fmt: skip
    small_experiment(tmp_path, labels={"queries": [{"id": "q", "text": text, "relevant_docs": rows}]})
    config = (tmp_path / "experiment.yaml").read_text(encoding="utf-8")
    (tmp_path / "experiment.yaml").write_text(config.replace("latency", "evaluators: {unit: span}\nlatency"))
    documents = order(capsys, text)
    place = documents.index("returns.md") + 1
    succeeded(capsys, "search", "experiment.yaml", text, "--grade", f"{place}={new}", "--grade", f"shipping.txt={new}")
    quote = "# Returns\n\nReturn any item within thirty days."
    assert labels()[0]["relevant_docs"] == [
        {"doc": "returns.md", "relevance": new},
        {"doc": "shipping.txt", "relevance": new, "quote": "two days"},
        rows[2],
        {"doc": "returns.md", "relevance": new, "quote": quote, "start": 0, "end": len(quote)},
    ]
    succeeded(capsys, "validate", "experiment.yaml", "-q")


@pytest.mark.parametrize(
    ("options", "labelled", "told"),
    [
        (["--id", "q1"], LABELS, "query 'q1' is there already."),
        ([], {"queries": [{"id": 1, "text": "x", "relevant_docs": [{"doc": "returns.md"}, {"doc": "gone.md"}]}]},
         "query '1' judges 'gone.md', which is not in the corpus"),
    ],
    ids=["a name that is taken", "labels that do not fit"],
)  # fmt: skip
def test_nobody_is_asked_for_grades_that_could_not_be_written(
    tmp_path: Path, options: list[str], labelled: dict[str, Any], told: str
) -> None:
    small_experiment(tmp_path, labels=labelled)
    with in_terminal("search", "experiment.yaml", TEXT, "--label", *options) as typed:
        typed.await_text(told)
        assert typed.ended() == 2


def test_a_text_that_cannot_be_quoted_is_left_out_and_the_other_grades_are_kept(tmp_path: Path) -> None:
    labelled = {"queries": [{"id": 1, "text": "x", "relevant_docs": [{"doc": "b", "quote": "two days"}]}]}
    config = CONFIG.replace("corpus: documents", "corpus: corpus.jsonl").replace(
        'kind: dense, top_k: 3', 'kind: bm25, top_k: 3')  # fmt: skip
    small_experiment(tmp_path, config=config, labels=labelled)
    rows = [{"_id": "a", "title": "Parcels", "text": ""}, {"_id": "b", "text": "Parcels take two days to arrive."}]
    write_rows(tmp_path / "corpus.jsonl", rows)
    with in_terminal("search", "experiment.yaml", "parcels", "--label") as typed:
        typed.type(("hit 1, 0 graded:", "3"))
        typed.await_text("this text is empty, and the labels name passages; leave it out.")
        typed.type(("hit 1, 0 graded:", " "), ("hit 2, 0 graded:", "2"))
        typed.await_text("the passage that answers")
        os.write(typed.terminal, b"\n")
        typed.await_text("1 judgment written")
        assert typed.ended() == 0
    assert [label["doc"] for label in labels()[1]["relevant_docs"]] == ["b"]
