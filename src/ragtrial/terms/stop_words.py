"""Words that are too common to look up."""

from __future__ import annotations

from pathlib import Path

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
    from bm25s import stopwords

    suffix = {"english": "EN", "english_plus": "EN_PLUS"}.get(language, language.upper())
    return frozenset(getattr(stopwords, f"STOPWORDS_{suffix}"))


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
