"""JSON texts changed in place: what is added looks like what stands beside it, and all else stays as it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragtrial.dataset.json_places import Extent, extents

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Layout:
    """The white space of a list or an object: behind the opening bracket, between members, before the closing one.

    ``colon`` is what stands between a key and its value.
    """

    lead: str = ""
    between: str = ", "
    tail: str = ""
    colon: str = ": "

    @property
    def in_lines(self) -> bool:
        """Whether its members stand on lines of their own."""
        return "\n" in self.lead or "\n" in self.between


class JsonText:
    """A valid JSON text, where its values stand, and how it is laid out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.value: Any = json.loads(text)

    @cached_property
    def extents(self) -> dict[Path, Extent]:
        """Where every value stands, by its path."""
        return extents(self.text)

    def replaced(self, start: int, end: int, by: str) -> JsonText:
        """The text with other characters from ``start`` to ``end``."""
        return JsonText(self.text[:start] + by + self.text[end:])

    def with_value(self, path: Path, written: str) -> JsonText:
        """With another value at ``path``, as it is ``written``."""
        place = self.extents[path]
        return self.replaced(place.start, place.end, written)

    def with_last(self, path: Path, written: str, like: Layout | None = None) -> JsonText:
        """With one more member of the list or the object at ``path``; an empty one is laid out ``like`` this."""
        place, last = self.extents[path], self._members(path)[-1:]
        if last:
            return self.replaced(last[0].end, last[0].end, self.layout(path).between + written)
        layout = like or self.plain
        return self.replaced(place.start + 1, place.end - 1, layout.lead + written + layout.tail)

    def without(self, path: Path) -> JsonText:
        """Without the member at ``path``, and the comma that set it apart; a list or object of one is empty then."""
        around = self.extents[path[:-1]]
        members = self._members(path[:-1])
        index = members.index(self.extents[path])
        if len(members) == 1:
            return self.replaced(around.start + 1, around.end - 1, "")
        if index == 0:
            return self.replaced(members[0].begin, members[1].begin, "")
        return self.replaced(members[index - 1].end, members[index].end, "")

    def layout(self, path: Path) -> Layout:
        """How the list or the object at ``path`` is laid out; an empty one is ``plain``."""
        members, place = self._members(path), self.extents[path]
        if not members:
            return self.plain
        lead = self.text[place.start + 1 : members[0].begin]
        tail = self.text[members[-1].end : place.end - 1]
        colons = [self._colon(one) for one in members if one.begin != one.start]
        colon = colons[-1] if colons else self.plain.colon
        if len(members) > 1:
            between = self.text[members[-2].end : members[-1].begin]
        elif "\n" in lead:
            between = "," + lead
        else:
            between = self.plain.between
        return Layout(lead, between, tail, colon)

    @cached_property
    def plain(self) -> Layout:
        """A list or an object on one line, as dense as the text is."""
        first = next((one for one in self.extents.values() if one.begin != one.start), None)
        return Layout(between=",", colon=":") if first and self._colon(first) == ":" else Layout()

    def count(self, path: Path) -> int:
        """How many members the list or the object at ``path`` has."""
        return len(self._members(path))

    def written(self, value: object) -> str:
        """A string, a number, true, false or null as the text writes such: beyond ASCII escaped, or as it is."""
        return json.dumps(value, ensure_ascii=self._is_escaped, allow_nan=False)

    def written_object(self, members: Mapping[str, str], like: Layout) -> str:
        """An object of values that are written already, laid out ``like`` this."""
        pairs = [self.written(key) + like.colon + value for key, value in members.items()]
        return "{" + like.lead + like.between.join(pairs) + like.tail + "}" if pairs else "{}"

    def written_list(self, values: Sequence[object], like: Layout) -> str:
        """A list of strings or numbers, laid out ``like`` this."""
        return "[" + like.lead + like.between.join(map(self.written, values)) + like.tail + "]" if values else "[]"

    @cached_property
    def _is_escaped(self) -> bool:
        return self.text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", self.text) is not None

    def _members(self, path: Path) -> list[Extent]:
        return self._inside.get(path, [])

    @cached_property
    def _inside(self) -> dict[Path, list[Extent]]:
        """The members of each list and object, in their order."""
        found: dict[Path, list[Extent]] = {}
        for path, place in self.extents.items():
            if path:
                found.setdefault(path[:-1], []).append(place)
        return found

    def _colon(self, member: Extent) -> str:
        """What stands between the key of a member and its value."""
        end = json.JSONDecoder().raw_decode(self.text, member.begin)[1]
        return self.text[end : member.start]
