"""A function of the user's answers: what it returns is placed in the documents, or refused with query, hit and why."""

from pathlib import Path

import pytest

from asked import TEXTS, Workplace, scores, show, workplace
from expectations import message_of
from ragtrial.errors import ModelNotFoundError, RetrieverError, RunError
from ragtrial.records import Question


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return workplace(tmp_path)


@pytest.mark.parametrize(("hits", "expected"), [
    ("['c', 'a']", ["c", "a"]),
    ("('c', 'a')", ["c", "a"]),
    ("iter(['c', 'a'])", ["c", "a"]),
    ("np.array(['c', 'a'])", ["c", "a"]),
    ("[('c', 2.5), ['a', np.float32(1)]]", ["c", "a"]),
    ("[{'doc': 'a', 'id': 'chunk-7'}, {'id': 'c'}]", ["a", "c"]),
    ("[{'doc': 'a', 'start': 0, 'end': 30}, {'doc': 'a', 'start': 31, 'end': np.int64(57)}]",
     ["a[0:30]", "a[31:57]"]),
    ("[{'doc': 'a', 'text': 'Soup keeps for three days.'}]", ["a[31:57]"]),
    ("[{'doc': 'a', 'text': '  Soup keeps for three days.\\r\\n'}]", ["a[31:57]"]),
    ("[{'doc': 'a', 'text': 'Soup keeps for two days.'}]", ["a"]),
    ("[{'doc': 'a', 'text': 'Rye bread', 'start': 0, 'end': 9}]", ["a[0:9]"]),
    ("[{'doc': 'c', 'text': 'Slice the leeks.'}]", ["c[0:16]"]),
    ("[({'doc': 'a', 'start': 0, 'end': 3}, 1)]", ["a[0:3]"]),
    ("[{'doc': 'd/e.md', 'text': ''}]", ["d/e.md"]),
    ("[]", []),
])  # fmt: skip
def test_hits_of_every_shape_are_placed(place: Workplace, hits: str, expected: list[str]) -> None:
    assert place.found(f"import numpy as np; return [{hits} for _ in queries]") == [expected]


def test_known_scores_are_kept_in_order_and_places_count_once(place: Workplace) -> None:
    place.write("def search(queries, top_k):\n    return [[('c', 1), ('a', 2.5)], ['b', ('a', None)]]\n")
    found = place.search("x", "y")
    assert show(found) == [["c", "a"], ["b", "a"]]
    assert scores(found) == [[1.0, 2.5], [None, None]]
    (warning,) = place.retriever().warnings("mine", found.facts)
    assert warning.code == "rising-scores"
    assert warning.message == (
        "mine: queries whose scores rise: 1, first 'x'. Hits are ranked as returned: is it best first?"
    )
    hits = "[('a', 0.5), {'doc': 'a', 'start': 0, 'end': 57, 'score': 0.25}, 'b', 'c', 'd/e.md']"
    place.write(f"def search(queries, top_k):\n    return [{hits}]\n")
    found = place.search("x", depth=3)
    assert show(found) == [["a", "b", "c"]]
    assert scores(found) == [[0.5, None, None]]
    assert (found.facts["duplicates"], found.facts["beyond_top_k"]) == (1, 1)
    assert [one.code for one in place.retriever().warnings("mine", found.facts)] == ["duplicate-hits"]


def test_a_function_gets_each_question_once_the_number_and_its_options(place: Workplace) -> None:
    place.write(
        "def search(queries, top_k, *, best):\n"
        "    assert (queries, top_k) == (['x', 'y'], 4), (queries, top_k)\n"
        "    return [[best]] * 2\n"
    )
    assert show(place.search("x", "y", depth=4, options={"best": "b"})) == [["b"], ["b"]]
    assert place.found("assert queries == ['x', 'y']; return [['a'], ['b']]", "x", "y", "x") == [["a"], ["b"], ["a"]]


LISTS = "it must return one list of hits for each query, in a list."
HERE = "my_search:search, query 'How?': "
SHAPE = (
    "a hit is an id, an (id, score) pair, a mapping with `doc` or `id`, or a document of LangChain, LlamaIndex or "
    "Haystack."
)
SCORE = "it must be a finite number (float32), or None where there is none."
MEANT = (
    "a retriever is a search function (queries, top_k), or an object with `invoke` (LangChain), `retrieve` "
    "(LlamaIndex) or `run` (Haystack), or a function or class that takes the options alone and makes one of these."
)
UNKNOWN = "is not the id of a document (4 documents)."


@pytest.mark.parametrize(("body", "fault"), [
    ("return None", f"my_search:search returned None for query 'How?'; {LISTS}"),
    ("return {'How?': ['a']}", f"my_search:search returned {{'How?': ['a']}} for query 'How?'; {LISTS}"),
    ("raise KeyError('token')", "my_search:search raised KeyError for query 'How?': 'token'"),
    ("return [(1 / 0 for _ in 'x')]",
     "my_search:search raised ZeroDivisionError for query 'How?': division by zero"),
    ("return [['a', 3.5]]", f"{HERE}hit 2 is 3.5; {SHAPE}"),
    ("return [[(('a', 1), 2)]]", f"{HERE}hit 1 is (('a', 1), 2); {SHAPE}"),
    ("return [[{'name': 'a'}]]", f"{HERE}hit 1 has no 'doc' or 'id'; it has the keys ['name']."),
    ("return [[('a', float('nan'))]]", f"{HERE}hit 1 has the score nan; {SCORE}"),
    ("return [[('a', True)]]", f"{HERE}hit 1 has the score True; {SCORE}"),
    ("return [['e/d.md', 'x', 'y', 'z']]",
     f"{HERE}'e/d.md' {UNKNOWN} Did you mean 'd/e.md'? 'x' {UNKNOWN} 'y' {UNKNOWN} And 1 more."),
    ("return [['/srv/d/e.md']]",
     f"{HERE}'/srv/d/e.md' {UNKNOWN} It is a path outside the corpus. Did you mean 'd/e.md'?"),
    ("return [['https://x.org/d/e.md']]", f"{HERE}'https://x.org/d/e.md' {UNKNOWN}"),
    ("return [[{'id': 'c1', 'file': 'a'}]]",
     f"{HERE}'c1' {UNKNOWN} Its 'file' is one: 'a'; set `document: file`."),
    ("return [[{'doc': 'a', 'start': 3}]]",
     f"{HERE}hit 1 has the start 3 and the end None; both must be whole numbers."),
    ("return [['b', {'doc': 'a', 'start': 3, 'end': 58}]]",
     f"{HERE}hit 2 is of the characters 3 to 58 of 'a', which has 0 to 57."),
    ("return [[{'doc': 'a', 'start': 0, 'end': 9, 'text': 'Old bread'}]]",
     f"{HERE}hit 1 has the text 'Old bread', and the characters 0 to 9 of 'a' are 'Rye bread'."),
    ("return [[{'doc': 'a', 'text': 3}]]", f"{HERE}hit 1 has the text 3; it must be a string."),
])  # fmt: skip
def test_what_is_no_answer_is_refused_with_what_came_and_is_expected(place: Workplace, body: str, fault: str) -> None:
    assert message_of(RetrieverError, place.found, body, "How?") == fault


def test_a_failed_batch_names_its_queries_and_fails_where_none_is_answered(place: Workplace) -> None:
    assert message_of(RetrieverError, place.found, "raise ConnectionError('no route')", "x", "y", "z") == (
        "my_search:search raised ConnectionError for 3 queries at once, from 'x' to 'z': no route"
    )
    with pytest.raises(RetrieverError, match="raised ValueError for query 'bad 1'"):
        place.found(FAILS, "bad 1", "bad 2", on_error="skip")
    assert place.found(FAILS, "bad", on_error="skip", is_fresh=True) == [[]]
    with pytest.raises(KeyboardInterrupt):
        place.found("raise KeyboardInterrupt", on_error="skip")


FAILS = "for q in queries:\n        if 'bad' in q: raise ValueError(q)\n    return [['a'] for _ in queries]"


def test_a_skipped_query_is_marked_counted_and_told_and_the_rest_of_its_batch_is_answered(place: Workplace) -> None:
    place.write(f"def search(queries, top_k):\n    {FAILS}\n")
    found = place.search("x", "bad 1", "y", "bad 2", on_error="skip", batch_size=3)
    assert show(found) == [["a"], [], ["a"], []]
    assert found.skipped.tolist() == [False, True, False, True]
    assert found.facts["skipped"] == 2
    (warning,) = place.retriever().warnings("mine", found.facts)
    assert warning.message == (
        "mine: the first query that could not be answered: my_search:search raised ValueError for query 'bad 1': bad 1"
    )


@pytest.mark.parametrize("hits", ["['nowhere']", "[('a', float('nan'))]", "'abc'"])
def test_a_query_whose_answer_is_none_is_skipped_as_one_that_raises(place: Workplace, hits: str) -> None:
    body = f"return [{hits} if 'bad' in q else ['a'] for q in queries]"
    place.write(f"def search(queries, top_k):\n    {body}\n")
    found = place.search("x", "bad", on_error="skip")
    assert (show(found), found.skipped.tolist()) == ([["a"], []], [False, True])


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_function_that_ends_the_program_fails_the_setting(place: Workplace, on_error: str) -> None:
    assert message_of(RunError, place.found, "import sys; sys.exit('bye')", "x", "y", on_error=on_error) == (
        "my_search:search tried to end the program (SystemExit: bye) for 2 queries at once, from 'x' to 'y'."
    )


def test_a_limit_of_the_retriever_s_own_is_told(place: Workplace) -> None:
    place.write("def search(queries, top_k):\n    return [['a', 'b'] for _ in queries]\n")
    found = place.search(*"vwxyz")
    (warning,) = place.retriever().warnings("mine", found.facts)
    assert warning.code == "own-limit"
    assert "hits for every query: 2, though" in warning.message
    assert place.search(*"vwxyz", depth=2).facts["limit"] is None
    assert place.search(*"vwxy").facts["limit"] is None
    place.write("def search(queries, top_k):\n    return [['a', 'b', 'c', 'd/e.md'] for _ in queries]\n")
    assert place.search(*"vwxyz").facts["limit"] is None


@pytest.mark.parametrize("code", [
    "def search(questions, k=3):\n    return [['b'] for _ in questions]\n",
    "def search(*, best='b'):\n    return lambda queries, top_k: [[best] for _ in queries]\n",
    "def search(best='b', size=3):\n    return lambda queries, top_k: [[best] for _ in queries]\n",
    "class search:\n    def __call__(self, queries, top_k):\n        return [['b'] for _ in queries]\n",
    "class Made:\n    def __call__(self, q, k):\n        return [['b'] for _ in q]\nsearch = Made()\n",
    "from functools import partial\ndef f(best, queries, top_k):\n    return [[best] for _ in queries]\n"
    "search = partial(f, 'b')\n",
])  # fmt: skip
def test_a_search_function_or_what_makes_one_may_be_named(place: Workplace, code: str) -> None:
    place.write(code)
    place.retriever().check(place.materials(), [Question("x")])
    assert show(place.search("x")) == [["b"]]


NONE = "my_search:search: the module my_search has no function 'search'."


@pytest.mark.parametrize(("code", "options", "fault"), [
    ("", {}, NONE),
    ("def serch(q, k): pass", {}, f"{NONE} Did you mean 'serch'?"),
    ("search = 3", {}, f"my_search:search cannot be a retriever: it is 3; {MEANT}"),
    ("1 / 0", {}, "the module 'my_search' cannot be imported: ZeroDivisionError: division by zero"),
    ("def search(queries, top_k): pass", {"alpha": 1},
     "my_search:search cannot be a retriever called with the options {'alpha': 1}: it is search(queries, top_k)"
     f"; {MEANT}"),
    ("class C:\n    def retrieve(self, q): pass\nsearch = C()", {"alpha": 1},
     "my_search:search is an object and takes no `options`; name what makes it."),
])  # fmt: skip
def test_what_is_no_retriever_is_refused(place: Workplace, code: str, options: dict[str, object], fault: str) -> None:
    place.write(code)
    with pytest.raises(ModelNotFoundError) as error:
        place.retriever(options=options).check(place.materials(), [Question("x")])
    assert str(error.value) == fault


def test_what_makes_no_retriever_fails_the_setting(place: Workplace) -> None:
    place.write("def search():\n    return [['a']]\n")
    with pytest.raises(
        RunError, match=r"^my_search:search was called with the options alone and returned \[\['a'\]\]; a ret"
    ):
        place.search("x")
    place.write("def search():\n    raise OSError('no such index')\n")
    with pytest.raises(RunError, match=r"^my_search:search raised OSError: no such index$"):
        place.search("x", on_error="skip")


COUNTED = (
    "from pathlib import Path\nASKED = Path(__file__).with_name('asked')\n"
    "def search(queries, top_k, **options):\n"
    "    with ASKED.open('a') as file: file.write(f'{queries} {top_k}\\n')\n"
    "    return [['a', 'b', 'c', 'd/e.md'][:top_k] for _ in queries]\n"
)


def asked(place: Workplace) -> list[str]:
    """The calls so far."""
    file = place.folder / "asked"
    return file.read_text().splitlines() if file.exists() else []


def test_only_what_is_not_known_is_asked(place: Workplace) -> None:
    place.write(COUNTED)
    first = place.search("x", "y", depth=3)
    again = place.search("y", "z", "x", depth=3)
    assert asked(place) == ["['x', 'y'] 3", "['z'] 3"]
    assert show(again) == [["a", "b", "c"]] * 3
    assert show(first) == show(again)[:2]


def test_a_deeper_answer_is_cut_and_a_shallower_one_is_asked_again(place: Workplace) -> None:
    place.write(COUNTED)
    assert show(place.search("x", depth=3)) == [["a", "b", "c"]]
    cut = place.search("x", depth=2)
    assert (show(cut), cut.facts["beyond_top_k"]) == ([["a", "b"]], 0)
    assert show(place.search("x", depth=4)) == [["a", "b", "c", "d/e.md"]]
    assert show(place.search("x", depth=3)) == [["a", "b", "c"]]
    assert asked(place) == ["['x'] 3", "['x'] 4"]


@pytest.mark.parametrize(("size", "sizes"), [(None, [5]), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_a_call_has_at_most_batch_size_questions(place: Workplace, size: int | None, sizes: list[int]) -> None:
    place.write(COUNTED.replace("{queries}", "{len(queries)}"))
    place.search("1", "2", "3", "4", "5", batch_size=size)
    assert asked(place) == [f"{size} 10" for size in sizes]


def test_latency_neither_reads_nor_writes_answers(place: Workplace) -> None:
    place.write(COUNTED)
    place.search("x", is_fresh=True)
    assert place.journals() == []
    place.search("x")
    place.search("x", is_fresh=True)
    assert len(asked(place)) == 3


def test_answers_are_of_a_function_s_code_options_and_documents(place: Workplace, tmp_path: Path) -> None:
    place.write(COUNTED)
    place.search("x")
    place.search("x", options={"alpha": 1})
    place.search("x", document="doc")
    place.write(COUNTED + "# another\n")
    place.search("x")
    (tmp_path / "other").mkdir()
    changed = workplace(tmp_path / "other", {**TEXTS, "b": "Bake rolls until they are goldem."}).library
    Workplace(place.folder, changed).search("x")
    assert len(asked(place)) == 5
    place.search("x", batch_size=1, top_k=3, on_error="skip", options={})
    assert len(asked(place)) == 5


def test_damaged_lines_are_asked_again_and_the_others_are_not(place: Workplace) -> None:
    place.write(COUNTED)
    place.search("x", "y", "z")
    (journal,) = place.journals()
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([lines[0], lines[1].replace(b'"a"', b'"b"'), lines[2], lines[3][:-9]]))
    assert show(place.search("x", "y", "z", depth=4)) == [["a", "b", "c", "d/e.md"]] * 3
    place.search("x", "y", "z")
    assert asked(place) == ["['x', 'y', 'z'] 10", "['x', 'z'] 4", "['x', 'z'] 10"]


def test_scores_and_places_are_kept_as_they_came(place: Workplace) -> None:
    place.write(
        "def search(queries, top_k):\n"
        "    return [[('b', 0.1), {'doc': 'a', 'text': 'Soup', 'score': 1 / 3}, 'a', {'doc': 'c', 'text': 'no'}]]\n"
    )
    first, again = place.search("x ☃ \ud800"), place.search("x ☃ \ud800")
    assert show(first) == show(again) == [["b", "a[31:35]", "a", "c"]]
    assert scores(first) == scores(again)
    assert first.facts == again.facts
    assert first.facts["unlocated"] == 1
