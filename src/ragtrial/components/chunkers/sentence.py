"""Whole sentences, merged up to the size."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from ragtrial.components.chunkers.base import CHUNKERS, LengthFunction, SizedChunker
from ragtrial.components.chunkers.piece_merging import Measure, Stretch
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

    revision = 2

    kind: Literal["sentence"] = "sentence"
    """Whole sentences, joined up to `size`; `overlap` is as many whole sentences as fit in it."""

    def split(self, text: str, ruler: LengthFunction) -> list[Span]:
        measure = Measure(ruler, *self.window(ruler))
        within = replace(measure, overlap=0)

        def of_words(start: int, end: int) -> list[Stretch]:
            return within.merged_or_cut((word.span() for word in _WORD.finditer(text, start, end)), within.units)

        found = ((sentence.start, sentence.end) for sentence in sentences(text))
        return [Span(*stretch) for stretch in measure.merged_or_cut(found, of_words)]
