"""Words that are too common to look up."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ragtrial.dataset.texts import read_text
from ragtrial.errors import ConfigError, Fault

NO_STOP_WORDS = "none"
STOP_WORD_LANGUAGES = (
    "english", "english_plus", "german", "dutch", "french", "spanish", "portuguese", "italian", "russian", "swedish",
    "norwegian", "chinese", "turkish", "korean", "danish",
)  # fmt: skip
"""The lists that bm25s brings: Lucene's 33 English words, all other languages (and english_plus) as NLTK has them."""


def stop_words_of(language: str) -> frozenset[str]:
    """The list of a language of ``STOP_WORD_LANGUAGES``; empty for "none"."""
    if language == NO_STOP_WORDS:
        return frozenset()
    suffix = {"english": "EN", "english_plus": "EN_PLUS"}.get(language, language.upper())
    return frozenset(getattr(_lists(), f"STOPWORDS_{suffix}"))


@cache
def _lists() -> ModuleType:
    """The lists of bm25s without the rest of it, which takes half a second to import."""
    package = find_spec("bm25s")
    places = package.submodule_search_locations if package else None
    if not places:
        raise ModuleNotFoundError("No module named 'bm25s'", name="bm25s")
    spec = spec_from_file_location("bm25s.stopwords", Path(places[0]) / "stopwords.py")
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'bm25s.stopwords'", name="bm25s.stopwords")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_stop_words(path: Path) -> frozenset[str]:
    """The words of a UTF-8 file, one a line; what follows ``#`` is a comment. Raises ConfigError."""
    words = set()
    faults = []
    for number, line in enumerate(read_text(path, ConfigError).splitlines(), start=1):
        found = line.partition("#")[0].split()
        if len(found) > 1:
            message = f"{' '.join(found)!r} is more than one word; write one word a line."
            faults.append(Fault(str(path), number, 0, message))
        words.update(found)
    if faults:
        raise ConfigError(*faults)
    if not words:
        raise ConfigError(Fault(str(path), message="has no words; write one a line, or `stop_words: none`."))
    return frozenset(words)
