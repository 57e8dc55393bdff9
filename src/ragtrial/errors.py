"""Every error that ragtrial raises on purpose, in one tree.

    RagtrialError
    ├── InputError               invalid config, labels or options; nothing ran  (exit code 2)
    │   ├── ConfigError          the YAML config, --set, the environment
    │   ├── LabelsError          prompt_queries.json, qrels
    │   ├── RunFileError         a run: a file, or a table in memory, with the results of a system
    │   ├── CorpusError          the documents
    │   ├── PrefixesError        a file of texts that are put before chunks
    │   ├── MetricError          a metric's name or parameters
    │   ├── CutoffError          a k beyond the depth that was retrieved
    │   ├── ModelNotFoundError   a model, a tokenizer or a custom function that cannot be found or read
    │   ├── ReportError          a report that is not there or cannot be read
    │   │   └── DamagedReportError  a file of it has other bytes than were written
    │   ├── ComparisonError      reports or settings that cannot be compared
    │   ├── PlotError            a plot that there is not, or that cannot be drawn or written
    │   └── GateError            a gate, or its baseline
    └── RunError                 it broke while running; what finished is kept   (exit code 3)
        ├── ChunkerError         a function that chunks failed, or what it returned are no chunks
        ├── EmbedderError        the model or the custom function failed
        ├── EndpointError        a model behind an endpoint could not be asked, or answered with something else
        │   └── RefusedError     it refused what the request holds; other requests may be answered
        ├── StoreError           the vector store failed
        │   └── StoreServerError its server is away, refuses, takes too long or answers nonsense
        ├── RetrieverError       a retriever of the user's failed, or what it returned are no hits
        └── WorkspaceError       the cache cannot be read or written

An error carries faults: each names the place, the invalid value, the expected value and the next step.
"""

from __future__ import annotations

import base64
import difflib
import os
import re
import traceback
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self
from urllib.parse import quote

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 6
_NAMED: set[str] = set()
"""The variables that a config names for secrets."""


def withhold(name: str) -> None:
    """From now on, ``without_secrets`` replaces the value of the environment variable ``name``."""
    _NAMED.add(name)


def without_secrets(text: str) -> str:
    """``text`` with the values of environment variables that hold secrets put back as ``${NAME}``.

    These are the variables with names like secrets, and the variables that a config names for one.
    """
    for name in sorted(_NAMED | set(filter(_SECRET.search, os.environ))):
        text = with_name_for_value(text, name, os.environ.get(name, ""))
    return text


def with_name_for_value(text: str, name: str, value: str) -> str:
    """``text`` with ``${name}`` for a secret ``value``, also where it is in base64, escaped for a URL or for JSON.

    A value of fewer than 6 characters stays: it would be replaced inside of words.
    """
    if len(value) >= _SHORTEST_SECRET:
        for form in _forms(value):
            text = text.replace(form, f"${{{name}}}")
    return text


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys([value, *_encoded(value), quote(value, safe=""), value.replace("/", r"\/")]))


def _encoded(value: str) -> Iterator[str]:
    """The characters of base64 that depend on ``value`` alone, wherever it is in a longer text."""
    raw = value.encode(errors="surrogateescape")
    for before in range(3):
        padded = bytes(before) + raw
        first, last = -(-before * 8 // 6), len(padded) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(padded).decode()[first:last]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong, at one place. Lines and columns count from 1."""

    file: str = ""
    line: int = 0
    column: int = 0
    message: str = ""

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place += f":{self.line}"
            if self.column:
                place += f":{self.column}"
        return f"{place}: {self.message}" if place else self.message


class RagtrialError(Exception):
    """The base of all errors below; ``str()`` is one line per fault, without secrets."""

    exit_code: ClassVar[int] = 3

    def __init__(self, *faults: Fault | str) -> None:
        named = (fault if isinstance(fault, Fault) else Fault(message=fault) for fault in faults)
        self.faults = tuple(replace(fault, message=without_secrets(fault.message)) for fault in named)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    @classmethod
    def raise_any(cls, faults: Collection[Fault | str]) -> None:
        """Raise this error with all ``faults``, if there are any."""
        if faults:
            raise cls(*faults)


class InputError(RagtrialError):
    """Config, labels or options are invalid; nothing was run."""

    exit_code = 2


class ConfigError(InputError):
    """The config, an override or an environment variable it names is wrong."""


class LabelsError(InputError):
    """The labelled queries are wrong, or do not fit the documents."""


class RunFileError(InputError):
    """A run, in a file or in memory, cannot be read or written."""


class CorpusError(InputError):
    """The documents cannot be read, or there are none."""


class PrefixesError(InputError):
    """A file of prefixes is wrong, or was made for other chunks."""


class MetricError(InputError):
    """A metric's name or parameter is unknown or out of range."""


class CutoffError(InputError):
    """A metric was asked for more hits than were retrieved for it."""


class ModelNotFoundError(InputError):
    """A model, a tokenizer or a custom function cannot be found or read; the message lists the tried places.

    ``may_be_fetched`` says that it is a model of the hub, which was not asked for it.
    """

    def __init__(self, *faults: Fault | str, may_be_fetched: bool = False) -> None:
        super().__init__(*faults)
        self.may_be_fetched = may_be_fetched


class GateError(InputError):
    """A gate is invalid, or refers to something missing."""


class ReportError(InputError):
    """A report is not there, or is not one."""


class DamagedReportError(ReportError):
    """A file of a report has other bytes than were written."""


class PlotError(InputError):
    """There is no such plot, or nothing to draw in it, or it cannot be drawn or written."""


class ComparisonError(InputError):
    """Reports or settings cannot be compared, or a needed part is missing."""


class RunError(RagtrialError):
    """It broke while running; what finished is kept, and the same command resumes."""


class ChunkerError(RunError):
    """A function that chunks failed, or its results are no chunks of the text."""


class EmbedderError(RunError):
    """The embedder failed, or returned something that cannot be an embedding.

    ``position`` is the index of the failing text in its input, None if no single text failed.
    """

    def __init__(self, *faults: Fault | str, position: int | None = None) -> None:
        super().__init__(*faults)
        self.position = position

    def moved(self, count: int) -> Self:
        """The same error, for texts that come after ``count`` others; one without a position has none."""
        moved = copy(self)
        moved.position = None if self.position is None else self.position + count
        return moved


class EndpointError(RunError):
    """A model behind an endpoint could not be asked, or its answer cannot be used."""


class RefusedError(EndpointError):
    """A model behind an endpoint refused what a request holds: a text is too long for it, or offends a filter."""


class StoreError(RunError):
    """The vector store failed, or an index that it built is damaged."""


class StoreServerError(StoreError):
    """The server of a vector store is away, refuses, takes too long or answers nonsense; its indexes may be sound."""


class RetrieverError(RunError):
    """A retriever of the user failed, or its results are no hits in the documents."""


class WorkspaceError(RunError):
    """The workspace cannot be read or written."""


def did_you_mean(name: str, valid: Iterable[str], cutoff: float = 0.6) -> str:
    """`` Did you mean 'x'?`` for the valid name nearest to ``name``; empty if none is as near as ``cutoff``."""
    by_lower = {candidate.lower(): candidate for candidate in valid}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=cutoff)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """The names joined by commas, cut after ``most`` with the count of the rest."""
    all_names = list(names)
    rest = len(all_names) - most
    return ", ".join(all_names[:most]) + (f", and {rest} more" if rest > 0 else "")


def counted(count: int, noun: str, several: str = "") -> str:
    """``1 setting``, ``2 settings``; ``several`` where that is another word."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def without_frames(error: Exception) -> Exception:
    """The same error to be kept: its traceback would hold all that was at work, and is a note where it is of use."""
    try:
        kept = copy(error)
    except Exception:  # noqa: BLE001 - other people's classes may ask for more than they keep
        kept = RuntimeError(f"{type(error).__name__}: {error}")
    if not isinstance(error, RagtrialError) and error.__traceback__ is not None and not hasattr(error, "__notes__"):
        kept.add_note("".join(traceback.format_tb(error.__traceback__)))
    return kept
