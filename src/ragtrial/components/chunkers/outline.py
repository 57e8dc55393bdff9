"""Cutting a text where its structure allows it: the coarsest places that do, then finer ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ragtrial.components.chunkers.piece_merging import Measure, Stretch
from ragtrial.components.chunkers.recursive import SEPARATORS, recursive_stretches, separators_in


class Outline:
    """The places where parts of ``text`` begin, each with its depth: 0 for the coarsest parts.

    A part reaches to the next of its depth or of a lesser one; what stands before a deeper part is that part's header.
    """

    def __init__(self, text: str, depths: Mapping[int, int]) -> None:
        self.text = text
        self._places = sorted(depths)
        self._depths = [depths[place] for place in self._places]

    def cut(self, start: int, end: int, measure: Measure) -> list[Stretch]:
        """``text[start:end]`` in stretches that fit.

        Neighbouring parts of one depth are joined while they fit; a part that does not fit alone is cut into its own
        parts, one without any as ``recursive`` cuts. A header that would stand alone goes with what it heads, if that
        must be cut anyway or fits beside it.
        """
        if self._fits(measure, start, end):
            return [(start, end)]
        return self._cut(start, end, start, measure)

    def _cut(self, start: int, end: int, lead: int, measure: Measure) -> list[Stretch]:
        """The stretches of ``text[start:end]``, which does not fit; headers from ``lead`` on go with the first."""
        parts = self._parts(start, end)
        if len(parts) == 1:
            return self._within(start, end, lead, measure)
        made: list[Stretch] = []
        fitting: list[Stretch] = []
        for part_start, part_end in parts:
            if self._fits(measure, part_start, part_end):
                if not fitting and lead < part_start:
                    fitting = [(lead, part_start)]
                fitting.append((part_start, part_end))
                lead = part_end
                continue
            if (
                fitting
                and all(self._is_header(*part) for part in fitting)
                and self._fits(measure, fitting[0][0], part_start)
            ):
                lead = fitting[0][0]
            else:
                made += measure.merged(fitting)
            fitting = []
            made += self._cut(part_start, part_end, lead, measure)
            lead = part_end
        return made + measure.merged(fitting)

    def _fits(self, measure: Measure, start: int, end: int) -> bool:
        """Whether a stretch is short enough, the white space at its ends not counted: it will be trimmed."""
        piece = self.text[start:end]
        first, last = start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
        return first >= last or measure.ruler.length(first, last) <= measure.budget

    def _within(self, start: int, end: int, lead: int, measure: Measure) -> list[Stretch]:
        """The stretches of a part without parts; a header goes with the first of them where there is room."""
        separators: Sequence[str] = SEPARATORS
        if lead < start:  # what parts the header from it is not looked for
            inside = start + len(self.text[start:end].rstrip())
            separators = separators_in(self.text, start, inside, measure)
        return recursive_stretches(self.text, lead, end, measure, separators)

    def _parts(self, start: int, end: int) -> list[Stretch]:
        """The coarsest parts of ``text[start:end]``, end to end; the whole where nothing begins inside it."""
        first, last = bisect_right(self._places, start), bisect_left(self._places, end)
        depths = self._depths[first:last]
        coarsest = min(depths, default=0)
        places = [place for place, depth in zip(self._places[first:last], depths, strict=True) if depth == coarsest]
        return list(pairwise([start, *places, end]))

    def _is_header(self, start: int, end: int) -> bool:
        """Whether each place of the stretch is followed by a deeper one, at its end the last."""
        first, after = bisect_left(self._places, start), bisect_left(self._places, end)
        own = self._depths[first : after + 1]
        begins = first < after < len(self._places) and self._places[first] == start
        return begins and all(one < other for one, other in pairwise(own))
