"""Options of chunkers, retrievers and refiners that cannot be: each is an error that says what would be right."""

import pytest

from ragtrial.components.chunkers.base import CHUNKERS
from ragtrial.components.interfaces import RETRIEVERS
from ragtrial.components.refiners.base import REFINERS
from ragtrial.errors import ConfigError, Fault
from ragtrial.options import validate

KINDS = {**dict(CHUNKERS.members()), **dict(RETRIEVERS.members()), **dict(REFINERS.members())}
NEEDED: dict[str, dict[str, object]] = {
    "fusion": {"inputs": ["dense", "bm25"]},
    **{kind: {"inputs": "dense"} for kind in ("expand", "mmr", "parent", "rerank")},
}
"""What a kind cannot be made without."""

SEPARATORS = 'separators: the list is {}; each must be in it once, and "" (between units) last: {}.'
NOT_USED = "{} is not used by default, `returns: document`; add returns: {}."
WRONG: dict[str, list[tuple[dict[str, object], str]]] = {
    "recursive": [
        ({"size": 40, "overlap": 40}, "overlap is 40; it must be below size (40)."),
        ({"unit": "characters", "tokenizer": "words"},
         "unit is characters, but tokenizer is words; set unit: tokens, or leave one of the two out."),
        ({"tokenizer": " "}, "tokenizer: a path must not be empty."),
        ({"separators": ["\n\n", "\n"]}, SEPARATORS.format(r'["\n\n", "\n"]', r'["\n\n", "\n", ""]')),
        ({"separators": []}, SEPARATORS.format("[]", r'["\n\n", "\n", ". ", " ", ""]')),
        ({"separators": ["。", " ", "。"]}, SEPARATORS.format('["。", " ", "。"]', '["。", " ", ""]')),
        ({"preset": "langchain", "measure": "indexed"},
         "preset langchain counts no title; leave out measure: indexed."),
    ],
    "semantic": [
        ({"amount": 101.0}, "amount is 101; as a percentile (percentile) it must be at most 100."),
        ({"threshold": "gradient", "amount": 150}, "amount is 150; as a percentile (gradient) it must be at most 100."),
        ({"target": 300, "size": 200}, "target is 300; it must be at most size (200)."),
        ({"target": 30, "amount": 5.0}, "target and amount are both given; target takes the place of amount."),
    ],
    "bm25": [
        ({"stemmer": "englsh"}, "stemmer: there is no such stemmer. Did you mean 'english'? Known: none, arabic,"),
        ({"stop_words": "germn"},
         "stop_words: there is no list of stop words of that name. Did you mean 'german'? Known: none, english,"),
        ({"stop_words": ["a", 3]}, "stop_words: 3 is not one word; list words one by one, as texts in quotes."),
        ({"k1": -1}, "k1 is -1; it must be at least 0.0 (default 1.2)."),
        ({"k1": float("inf")}, "k1: Input should be a finite number (found inf)."),
        ({"delta": 1}, "the method 'lucene' has no delta; it belongs to bm25l and bm25+. Leave it out."),
        ({"method": "bm25l", "k1": 0}, "the method 'bm25l' needs a k1 above 0, by which it divides."),
    ],
    "fusion": [
        ({"inputs": ["dense"]}, "inputs: names dense; it must name at least two retrievers, each once."),
        ({"inputs": ["a", "b", "a"]}, "inputs: names a, b, a; it must name at least two retrievers, each once."),
        ({"weights": [1]}, "`weights` has 1 values; it must have one for each of `inputs`."),
        ({"weights": [0, 1e-50]}, "weights: all weights are below 1e-06; at least one must reach that."),
        ({"method": "weighted", "rank_constant": 60},
         "`rank_constant` is used by method: rrf alone, not by weighted; leave it out."),
        ({"normalisation": "z_score"},
         "`normalisation` is not used by method: rrf; leave it out, or set method: weighted."),
    ],
    "expand": [
        ({"templates": ["On {query}", "A passage"]},
         "templates[1]: has no {query}, the place of the question's text; write it, like 'A passage about {query}'."),
        ({"phrasings": False, "templates": ["{query}"]},
         "asks nothing but the query itself; give `templates` that say more than {query}, or leave phrasings: true."),
        ({"endpoint": {"model": "m"}, "prompt": "rewrite"},
         "prompt is 'rewrite'; it must be one of: rewrites, answer; or a text with {query} in it."),
        ({"prompt": "answer"}, "has prompt, but no endpoint to use it; add one: `endpoint: {model: ...}`."),
    ],
    "parent": [
        ({"returns": "chunk"},
         "returns: chunk needs the chunker of the larger chunks; add one, such as chunker: {kind: recursive, size: "
         "800, overlap: 0}."),
        ({"chunker": {"kind": "document"}}, NOT_USED.format("chunker", "chunk")),
        ({"neighbours": 2}, NOT_USED.format("neighbours", "neighbours")),
    ],
    "rerank": [
        ({"endpoint": {"model": "m", "base_url": "http://127.0.0.1:9"}, name: value},
         f"has an endpoint, and {name}, which is for a local model; remove one of the two.")
        for name, value in (("model", "a/b"), ("device", "cpu"), ("precision", "bfloat16"), ("max_length", 9))
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "fault"), [(kind, *row) for kind, rows in WRONG.items() for row in rows])
def test_what_cannot_be_is_an_error_with_what_would_be_right(kind: str, options: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(KINDS[kind], {**NEEDED.get(kind, {}), **options}, ConfigError, lambda _, text: Fault(message=text))
    assert str(caught.value).startswith(fault)
