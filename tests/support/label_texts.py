"""Labels as people and tools write them: valid files in every layout that JSON allows."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(lambda text: text.strip())
_numbers = st.sampled_from(["1.50", "1e3", "-0.0", "0", "12E-1"])
_labels = st.fixed_dictionaries(
    {"doc": _names | st.integers(0, 99)}, optional={"relevance": st.integers(-1, 3), "quote": _names}
)
_queries = st.fixed_dictionaries(
    {"text": _names, "relevant_docs": st.lists(_labels, max_size=3)},
    optional={"tags": st.lists(_names, max_size=2), "ordered": st.booleans(), "where": st.just({"size": "NUMBER"})},
)


class Written:
    """A value with the white space, the numbers and the escapes that were drawn for it."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._blank = draw(st.sampled_from(["", " ", "\n  ", "\r\n\t", " \n"]))
        self._escaped = draw(st.booleans())
        self._is_even = draw(st.booleans())

    def blank(self) -> str:
        return self._blank if self._is_even else str(self._draw(st.sampled_from(["", " ", "\n", "\r\n   ", "\t"])))

    def of(self, value: Any) -> str:
        if value == "NUMBER":
            return str(self._draw(_numbers))
        if isinstance(value, dict):
            pairs = [f"{self.of(key)}{self.blank()}:{self.blank()}{self.of(one)}" for key, one in value.items()]
            return "{" + self._joined(pairs) + "}"
        if isinstance(value, list):
            return "[" + self._joined([self.of(one) for one in value]) + "]"
        return json.dumps(value, ensure_ascii=self._escaped)

    def _joined(self, parts: list[str]) -> str:
        return self.blank() + f"{self.blank()},{self.blank()}".join(parts) + self.blank()


@st.composite
def label_texts(draw: Draw) -> str:
    """The text of a valid prompt_queries.json with at least one query, ids of both kinds, and keys in any order."""
    rows = draw(st.lists(_queries, min_size=1, max_size=3))
    queries = []
    for number, row in enumerate(rows):
        entries = list({"id": draw(st.sampled_from([number, f"q{number}"])), **row}.items())
        queries.append(dict(draw(st.permutations(entries))))
    whole: dict[str, Any] = {"queries": queries}
    if draw(st.booleans()):
        whole = {"prompt": draw(_names), **whole}
    written = Written(draw)
    return str(written.blank() + written.of(whole) + written.blank())
