"""Whole sentences, merged up to the size."""

from __future__ import annotations

import re
from typing import Literal

from ragtrial.components.chunkers.base import CHUNKERS, Ruler, SizedChunker
from ragtrial.components.chunkers.piece_merging import Stretch, between_units, merged
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.records import Span

_WORD = re.compile(r"\S+")


@CHUNKERS.register("sentence")
class SentenceChunker(SizedChunker):
    """Neighbouring sentences joined up to ``size``; a chunk repeats as many whole ones as fit in ``overlap``.

    A sentence longer than ``size`` is a matter of its own: cut between words, a word longer than that between units,
    and joined with no other sentence. Tokens are counted where they stand: on its own a chunk may have one or two more
    with a tokenizer that puts the space before a word into its token. ``sentences`` says where
    sentences end.
    """

    kind: Literal["sentence"] = "sentence"
    """Whole sentences, joined up to `size`; `overlap` is as many whole sentences as fit in it."""

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        budget, overlap = self.window(ruler)
        stretches: list[Stretch] = []
        fitting: list[Stretch] = []
        for sentence in sentences(text):
            if ruler.length(sentence.start, sentence.end) <= budget:
                fitting.append((sentence.start, sentence.end))
                continue
            stretches += merged(fitting, ruler, budget, overlap)
            fitting = []
            stretches += _cut(text, sentence, ruler, budget)
        stretches += merged(fitting, ruler, budget, overlap)
        return [Span(*stretch) for stretch in stretches]


def _cut(text: str, sentence: Span, ruler: Ruler, budget: int) -> list[Stretch]:
    """The parts of a sentence that is too long, the fewest words torn."""
    stretches: list[Stretch] = []
    fitting: list[Stretch] = []
    for word in _WORD.finditer(text, sentence.start, sentence.end):
        if ruler.length(*word.span()) <= budget:
            fitting.append(word.span())
            continue
        stretches += merged(fitting, ruler, budget, 0)
        fitting = []
        stretches += merged(between_units(ruler, *word.span()), ruler, budget, 0)
    return stretches + merged(fitting, ruler, budget, 0)
