"""The terms of a text: words as BM25 looks them up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import chain, pairwise
from pathlib import Path
from types import ModuleType

from ragtrial.dataset.texts import read_text, without_unseen
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
    """The words of a UTF-8 file, one a line; ``#`` begins a comment. Raises ConfigError."""
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


NO_STEMMER = "none"
VERSION = 2
"""Part of the fingerprint of every term index: raise it whenever the same text would give other terms."""

UNICODE = unicodedata.unidata_version
"""The version of Unicode that texts are folded by."""

_TIDIED = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2212": "-", "\u0130": "i"})
"""Hyphens and minus signs are one character; of the Turkish İ a mark would stay."""
_JOINERS = r"\-./:"  # between the parts of a code: ERR-2041, v2.3.1, HTTP/2, sha256:1f
_APOSTROPHES = "'\u2019"
_SPLIT_AT_APOSTROPHE = re.compile(f"[{_APOSTROPHES}]")
_SPLIT_AT_JOINER = re.compile(f"[{_JOINERS}_]+")
_DECIMAL = re.compile(r"\d+\.\d+")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")  # U.S.A, e.g
_DIGIT_OR_UNDERSCORE = re.compile(r"[\d_]")
_SYMBOL_LANGUAGE = re.compile(r"\w(?:\+\+|#)")  # C++, C#, F#
# Han, Hiragana, Katakana and Hangul: what Lucene's CJKBigramFilter pairs.
_UNSPACED = (
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
)
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_MOST_REMEMBERED = 200_000  # distinct runs whose terms are remembered, some hundred bytes each


class Analyzer:
    """Turns texts into terms, in their order.

    The text is folded (Unicode NFKC and case; soft hyphens and zero-width spaces go). A run of letters, digits and
    marks is a word. Words joined by one of ``- . / : _`` give a term each; if a digit or an underscore is among them
    they are a code, which is a term as a whole, too: ``ERR-2041`` gives err-2041, err and 2041. A decimal number such
    as 3.5 is one term alone, and so are C++, C# and F#; U.S. is us. An apostrophe parts words, and a single letter next
    to it is dropped (user's, l'avion). Han, Hiragana, Katakana and Hangul give each character and each pair of
    neighbours, as Lucene's CJKBigramFilter does with outputUnigrams: a word of one character is found, and a Korean
    noun with any particle. In other scripts without spaces (Thai, Lao, Khmer, Burmese) the text between two spaces is
    one word.

    Words among ``stop_words`` are left out before stemming. ``stemmer`` is an algorithm of PyStemmer (Snowball; Porter
    2001), or "none"; codes and words with a digit are never stemmed.
    """

    def __init__(self, stemmer: str, stop_words: Collection[str]) -> None:
        self._stem = _stemmer(stemmer)
        self._stop_words = frozenset(chain.from_iterable(map(_forms, map(folded, stop_words))))
        self._remembered: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> list[str]:
        """The terms of ``text``; empty where it has no word, or stop words alone."""
        found: list[str] = []
        remembered = self._remembered
        for run in _runs(folded(text)):
            terms = remembered.get(run)
            if terms is None:
                if len(remembered) >= _MOST_REMEMBERED:
                    remembered.clear()
                terms = remembered[run] = tuple(self._terms_of(run))
            found += terms
        return found

    def _terms_of(self, run: str) -> list[str]:
        if _SYMBOL_LANGUAGE.fullmatch(run):
            return [run]
        if run in self._stop_words and _UNSPACED_RUN.match(run):
            return []
        words = [word for word in _words(run) if word not in self._stop_words]
        return [word if _DIGIT_OR_UNDERSCORE.search(word) else self._stem(word) or word for word in words]


def folded(text: str) -> str:
    """``text`` as words are compared: Unicode NFKC without case (Unicode 3.13, D147, nearly), the unseen left out."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", without_unseen(text)).translate(_TIDIED)
    return unicodedata.normalize("NFKC", plain.casefold())


def _forms(stop_word: str) -> list[str]:
    """The words of a text that a folded stop word is: for "don't" the "don"."""
    return _words(stop_word) if _SPLIT_AT_APOSTROPHE.search(stop_word) else [stop_word]


def _words(run: str) -> list[str]:
    """The words of a folded run: whole codes and parts, of unspaced scripts characters and pairs."""
    if _UNSPACED_RUN.match(run):
        return [*run, *map("".join, pairwise(run))]
    words: list[str] = []
    pieces = _SPLIT_AT_APOSTROPHE.split(run)
    for piece in (piece.strip("_") for piece in pieces):
        if len(pieces) > 1 and len(piece) == 1 and piece.isalpha():
            continue
        if _DECIMAL.fullmatch(piece):
            words.append(piece)
        elif _INITIALS.fullmatch(piece):
            words.append(piece.replace(".", ""))
        else:
            parts = [part for part in _SPLIT_AT_JOINER.split(piece) if part]
            is_code = len(parts) > 1 and _DIGIT_OR_UNDERSCORE.search(piece)
            words += [piece, *parts] if is_code else parts
    return words


def _runs(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_RUNS.findall(text)
    pattern = _unicode_runs(0x10FFFF if _BEYOND_16_BITS.search(text) else 0xFFFF)
    return pattern.findall(_UNSPACED_RUN.sub(r" \g<0> ", text))


def _pattern(character: str) -> re.Pattern[str]:
    joined = f"{character}+(?:[{_JOINERS}{_APOSTROPHES}]{character}+)*"
    return re.compile(rf"(?<!{character})[a-z](?:\+\+|#)(?!{character})|{joined}")


_ASCII_RUNS = _pattern("[a-z0-9_]")


@cache
def _unicode_runs(last: int) -> re.Pattern[str]:
    """Runs in any script, of characters up to ``last``: a set of those below 2**16 is searched many times as fast.

    Python's word characters have no combining marks, without which Hindi or Tamil falls to pieces.
    """
    codes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))  # marks occur nowhere else
    marks = "".join(chr(code) for code in codes if code <= last and unicodedata.category(chr(code))[0] == "M")
    return _pattern(f"[\\w\u200c\u200d{marks}]")


def _stemmer(name: str) -> Callable[[str], str]:
    if name == NO_STEMMER:
        return str
    import Stemmer

    # Its own memory of words is not needed: runs are remembered with their terms.
    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord
    return stem


def stemmers() -> list[str]:
    """The names of the stemmers that there are."""
    import Stemmer

    return [NO_STEMMER, *Stemmer.algorithms()]
