"""The terms of texts, words as BM25 looks them up, and exact BM25 search in the terms of chunks on disk."""

from __future__ import annotations

import json
import re
import runpy
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.cache.arrays import are_offsets, is_within, map_file, read_array, write_array
from ragtrial.dataset.texts import read_text, without_unseen
from ragtrial.errors import ConfigError, Fault
from ragtrial.rankings import Bools, Codes, Counts, Floats, Rankings, unfilled

if TYPE_CHECKING:
    from bm25s import BM25

NONE = "none"
"""No stop words, or no stemmer."""

STOP_WORD_LANGUAGES = (
    "english", "english_plus", "german", "dutch", "french", "spanish", "portuguese", "italian", "russian", "swedish",
    "norwegian", "chinese", "turkish", "korean", "danish",
)  # fmt: skip
"""The lists that bm25s brings: Lucene's 33 English words, all other languages (and english_plus) as NLTK has them."""


def stop_words_of(language: str) -> frozenset[str]:
    """The list of a language of ``STOP_WORD_LANGUAGES``; empty for "none"."""
    if language == NONE:
        return frozenset()
    suffix = {"english": "EN", "english_plus": "EN_PLUS"}.get(language, language.upper())
    return frozenset(_lists()[f"STOPWORDS_{suffix}"])


@cache
def _lists() -> Mapping[str, Collection[str]]:
    """The lists of bm25s by their names, without the rest of it, which takes half a second to import."""
    package = find_spec("bm25s")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'bm25s'", name="bm25s")
    return runpy.run_path(str(Path(package.origin).with_name("stopwords.py")))


def read_stop_words(path: Path) -> frozenset[str]:
    """The words of a UTF-8 file, one a line; ``#`` begins a comment. Raises ConfigError."""
    lines = [line.partition("#")[0].split() for line in read_text(path, ConfigError).splitlines()]
    faults = [
        Fault(str(path), number, 0, f"{' '.join(line)!r} is more than one word; write one word a line.")
        for number, line in enumerate(lines, start=1)
        if len(line) > 1
    ]
    ConfigError.raise_any(faults)
    words = frozenset(chain.from_iterable(lines))
    if not words:
        raise ConfigError(Fault(str(path), message="has no words; write one a line, or `stop_words: none`."))
    return words


TERMS_VERSION = [2, unicodedata.unidata_version]
"""Part of the fingerprint of every term index: raise the number whenever the same text would give other terms.
The other is the version of Unicode that texts are folded by."""

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
    if name == NONE:
        return str
    import Stemmer

    # Its own memory of words is not needed: runs are remembered with their terms.
    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord
    return stem


def stemmers() -> list[str]:
    """The names of the stemmers that there are."""
    import Stemmer

    return [NONE, *Stemmer.algorithms()]


_FLUSHED_AT = 2**20  # terms that are held while texts are read


class TermLists:
    """For each chunk the codes of its terms, in their order, mapped from files.

    ``vocabulary`` has the code of each term: the order in which they first come. Files: ``vocabulary.json`` (the terms
    by code), ``terms.bin`` (int32 in this machine's byte order, one chunk after another) and ``offsets.npy`` (int64,
    chunks + 1). Raises ValueError for files that do not fit together.
    """

    def __init__(self, folder: Path) -> None:
        terms = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        self.vocabulary: dict[str, int] = {term: code for code, term in enumerate(terms)}
        self.offsets: Counts = read_array(folder / "offsets.npy")
        size = (folder / "terms.bin").stat().st_size
        self._codes: Codes = map_file(folder / "terms.bin", np.dtype(np.int32), size // 4)
        fits = are_offsets(self.offsets, len(self.offsets) - 1, size // 4) and len(self.vocabulary) == len(terms)
        if not fits or not is_within(self._codes, len(terms)):
            raise ValueError("terms, offsets and vocabulary do not fit together")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[list[int]]:
        for start, end in pairwise(self.offsets.tolist()):
            yield self._codes[start:end].tolist()

    @property
    def total(self) -> int:
        """The terms of all chunks, with repetitions."""
        return int(self.offsets[-1])

    @classmethod
    def write(
        cls,
        folder: Path,
        texts: Iterable[tuple[str, str]],
        analyzer: Analyzer,
        title_weight: int,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Put the terms of ``texts`` into ``folder``; the terms of titles, the first of each pair, ``title_weight``
        times.

        ``advance`` counts the texts. The memory that is taken grows with their vocabulary, not with their number.
        """
        vocabulary: dict[str, int] = {}
        offsets, held, written = array("q", [0]), array("i"), 0
        with (folder / "terms.bin").open("wb") as file:
            for title, text in texts:
                terms = analyzer.terms(title) * title_weight if title_weight else []
                terms += analyzer.terms(text)
                held.extend(vocabulary.setdefault(term, len(vocabulary)) for term in terms)
                offsets.append(written + len(held))
                if len(held) >= _FLUSHED_AT:
                    file.write(held.tobytes())
                    written, held = written + len(held), array("i")
                advance(1)
            file.write(held.tobytes())
        write_array(folder / "offsets.npy", np.array(offsets, dtype=np.int64))
        (folder / "vocabulary.json").write_text(json.dumps(list(vocabulary), ensure_ascii=False), encoding="utf-8")


INDEX_VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same terms would be weighed or kept otherwise."""


@dataclass(frozen=True)
class Weighting:
    """A variant of BM25, by its name in bm25s, and its parameters (Kamphuis et al. 2020, table 1)."""

    method: str
    k1: float
    b: float
    delta: float

    def scorer(self) -> BM25:
        """bm25s with these parameters, and with the same backend on every machine."""
        import bm25s

        return bm25s.BM25(**vars(self), backend="numpy", csc_backend="numpy")


class TermIndex:
    """The chunks by term: for each term a column of chunks and their addends to the score, mapped from files.

    ``vocabulary`` has the code of each term; ``order`` the tie order of each chunk, shape (chunks,). Files:
    ``data.npy`` (float32) and ``indices.npy`` (int32: chunks), one column after another, ``indptr.npy`` (int64, terms +
    1), ``absent.npy`` (float32: what a term adds to the score of each chunk without it; empty where that is nothing)
    and ``index.json`` (the number of chunks; whether all of ``data`` is above 0). Raises ValueError for files that do
    not fit together.
    """

    def __init__(self, folder: Path, vocabulary: dict[str, int], order: Counts) -> None:
        self.vocabulary = vocabulary
        self._order = order
        about = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self._indices: Codes = read_array(folder / "indices.npy")
        self._indptr: Counts = read_array(folder / "indptr.npy")
        data: Floats = read_array(folder / "data.npy")
        absent: Floats = read_array(folder / "absent.npy")
        self._chunks = int(about["chunks"])
        self._is_positive = bool(about["positive"]) and not len(absent)
        fits = are_offsets(self._indptr, len(vocabulary), len(data)) and self._chunks == len(order)
        fits = fits and is_within(self._indices, self._chunks)
        if not fits or len(data) != len(self._indices) or len(absent) not in (0, len(vocabulary)):
            raise ValueError("the columns do not fit together")
        self._scorer = Weighting("lucene", 1, 0, 0).scorer()  # it only adds up the columns
        self._scorer.scores = {
            "data": data, "indices": self._indices, "indptr": self._indptr, "num_docs": self._chunks,
        }  # fmt: skip
        self._scorer.nonoccurrence_array = absent if len(absent) else None

    @classmethod
    def write(cls, folder: Path, lists: TermLists, weighting: Weighting) -> None:
        """Weigh the terms of ``lists``, at least one, and put the index into ``folder``."""
        scorer = weighting.scorer()
        # bm25s passes over the chunks a few times; they come from the disk one by one.
        corpus = SimpleNamespace(ids=lists, vocab=lists.vocabulary)  # a tokenised corpus, in the form that it takes
        scorer.index(corpus, create_empty_token=False, show_progress=False)
        data, absent = scorer.scores["data"], scorer.nonoccurrence_array
        write_array(folder / "data.npy", data)
        write_array(folder / "indices.npy", scorer.scores["indices"])
        write_array(folder / "indptr.npy", scorer.scores["indptr"])
        write_array(folder / "absent.npy", np.empty(0, np.float32) if absent is None else absent)
        about = {"chunks": len(lists), "positive": bool(data.min() > 0)}
        (folder / "index.json").write_text(json.dumps(about), encoding="utf-8")

    def known(self, terms: Iterable[str]) -> list[int]:
        """The codes of the ``terms`` that any chunk has, with repetitions."""
        return [self.vocabulary[term] for term in terms if term in self.vocabulary]

    def search(self, queries: Sequence[Sequence[int]], depth: int) -> Rankings:
        """For the terms of each query, by code, at most ``depth`` chunks that have one of them, best first.

        Scores equal those by bm25s, a repeated term counting each time; ties by ``order``.
        """
        rankings = unfilled(len(queries), min(depth, self._chunks))
        for row, codes in enumerate(queries if rankings.depth else ()):
            if len(codes):
                scores: Floats = self._scorer.get_scores_from_ids(codes)
                best = self._best(scores, codes, rankings.depth)
                rankings.codes[row, : len(best)], rankings.scores[row, : len(best)] = best, scores[best]
        return rankings

    def _best(self, scores: Floats, codes: Sequence[int], depth: int) -> Counts:
        """At most ``depth`` of the chunks with one of the terms, best first."""
        # If every term raises the score, the chunks above 0 are the hits; else the terms decide: one can be worth
        # nothing (if half of all chunks have it), and absent terms can be worth something.
        hits = scores if self._is_positive else np.where(self._having(codes), scores, -np.inf)
        least = np.partition(hits, -depth)[-depth]
        worst = 0 if self._is_positive else -np.inf
        found = np.flatnonzero(hits >= least) if least > worst else np.flatnonzero(hits > worst)
        return found[np.lexsort((self._order[found], -hits[found]))[:depth]]

    def _having(self, codes: Sequence[int]) -> Bools:
        having = np.zeros(self._chunks, dtype=np.bool_)
        for code in set(codes):
            having[self._indices[self._indptr[code] : self._indptr[code + 1]]] = True
        return having
