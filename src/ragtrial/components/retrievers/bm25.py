"""The chunks that share most words with the question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ragtrial.cache.fingerprints import Digest
from ragtrial.components import terms
from ragtrial.components.interfaces import RETRIEVERS, Candidates, ChunkRetriever, Facts, RetrieverContext, place_order
from ragtrial.errors import ConfigError, CorpusError, RunError, counted, did_you_mean
from ragtrial.options import located
from ragtrial.progress import stage
from ragtrial.records import Question, ReportWarning

_DELTAS = {"bm25l": 0.5, "bm25+": 1.0}  # as Lv & Zhai recommend: SIGIR 2011 for BM25L, CIKM 2011 for BM25+
_LANGUAGE_OF = {"porter": "english", "english_plus": "english", "dutch_porter": "dutch"}


def _stemmer_name(value: object) -> object:
    if value is None:
        return terms.NONE
    if isinstance(value, str) and value not in terms.stemmers():
        known = terms.stemmers()
        raise ValueError(f"there is no such stemmer.{did_you_mean(value, known)} Known: {', '.join(known)}.")
    return str(value) if isinstance(value, str) else value


def _stop_words(value: object) -> object:
    known = (terms.NONE, *terms.STOP_WORD_LANGUAGES)
    if value is None:
        return terms.NONE
    if isinstance(value, list | tuple):
        return tuple(_word(word) for word in value)
    if not isinstance(value, str) or value in known:
        return value
    if any(sign in value for sign in "./\\"):
        return located(value)
    raise ValueError(
        f"there is no list of stop words of that name.{did_you_mean(value, known)} Known: {', '.join(known)}; "
        "or give a list of words, or a file with an ending, such as stop.txt."
    )


def _word(value: object) -> str:
    if not isinstance(value, str) or len(value.split()) != 1:
        raise ValueError(f"{value!r} is not one word; list words one by one, as texts in quotes.")
    return str(value)


@RETRIEVERS.register("bm25")
class Bm25Retriever(ChunkRetriever):
    """The chunks that share most words with the question, rare words counting more: BM25, by bm25s.

    The defaults of ``k1`` and ``b`` are Lucene's, and so Elasticsearch's, OpenSearch's and Solr's: untuned values,
    within the ranges that Robertson & Zaragoza 2009 (section 3.5) recommend. (bm25s itself has k1 1.5; Anserini and
    Pyserini have k1 0.9 and b 0.4, tuned for short passages.) ``method`` has the formulas of Kamphuis et al. 2020,
    table 1; of robertson no weight is below 0. Source: Lu 2024, BM25S.
    """

    content_is: ClassVar[str] = "stop words or libraries"
    packages: ClassVar[Mapping[str, str]] = {"bm25s": "", "pystemmer": ""}
    hashed_packages: ClassVar[tuple[str, ...]] = ("bm25s", "pystemmer")

    kind: Literal["bm25"] = "bm25"
    """The chunks that share most words with the question (BM25, by bm25s)."""

    method: Literal["lucene", "robertson", "atire", "bm25l", "bm25+"] = "lucene"
    """The variant of the formula: as Lucene's, Robertson's own, ATIRE's, BM25L or BM25+."""

    k1: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.2
    """How much repeated words count: 0 not at all; the more, the higher."""

    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    """How much long chunks are marked down: 0 not at all, 1 by all of their length."""

    delta: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """For bm25l and bm25+: the minimum value of one occurrence (default: 0.5 for bm25l, 1 for bm25+)."""

    stemmer: Annotated[str, BeforeValidator(_stemmer_name)] = "english"
    """The stemmer: a language of Snowball, `porter` (as Lucene's for English), or `none`."""

    stop_words: Annotated[str | tuple[str, ...], BeforeValidator(_stop_words)] = "english"
    """Words that are left out: a language, `none`, a list of words, or a file with one a line."""

    title_weight: Annotated[int, Field(ge=0, le=100)] = 1
    """How often the words of the title count (Robertson, Zaragoza & Taylor 2004); 0 leaves the title out."""

    @model_validator(mode="after")
    def _delta_is_used(self) -> Self:
        if self.delta is not None and self.method not in _DELTAS:
            raise ValueError(f"the method {self.method!r} has no delta; it belongs to bm25l and bm25+. Leave it out.")
        if self.method in _DELTAS and self.k1 == 0:
            raise ValueError(f"the method {self.method!r} needs a k1 above 0, by which it divides.")
        return self

    @property
    def weighting(self) -> terms.Weighting:
        """The formula with its parameters."""
        delta = _DELTAS.get(self.method, 0.0) if self.delta is None else self.delta
        return terms.Weighting(self.method, self.k1, self.b, delta)

    def hashed_options(self) -> dict[str, Any]:
        return {**super().hashed_options(), "delta": self.weighting.delta}

    def hashed_content(self, digest: Digest) -> Any:
        return {"version": [terms.INDEX_VERSION, *terms.TERMS_VERSION], "stop_words": sorted(self.left_out())}

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        """Raises ConfigError for stop words that cannot be read, CorpusError for documents without any text."""
        try:
            self.left_out()
        except ConfigError as error:
            named = f"`retrievers.{context.entry}.stop_words` names it."
            faults = (replace(fault, message=f"{fault.message} {named}") for fault in error.faults)
            raise ConfigError(*faults) from error
        library = context.library
        if library.empty == len(library) and not (self.title_weight and any(library.titles)):
            raise CorpusError(
                f"{context.setting}: no document has any text ({counted(len(library), 'document')}), so there is no "
                "word to look up; `dataset.corpus` names them."
            )

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        missed = facts.get("queries_without_known_words")
        if missed:
            yield ReportWarning(
                "bm25-unknown-words",
                f"{setting}: nothing was found for {counted(int(missed), 'question')}: no chunk contains any of their "
                "words (ignoring stop words). Those with labels score 0.",
            )
        languages = [_LANGUAGE_OF.get(name, name) for name in (self.stemmer, self.stop_words) if isinstance(name, str)]
        if self.stop_words in terms.STOP_WORD_LANGUAGES and self.stemmer != terms.NONE and len(set(languages)) > 1:
            yield ReportWarning(
                "bm25-languages",
                f"{setting}: `stemmer: {self.stemmer}` with `stop_words: {self.stop_words}`, two languages; is one of "
                "them the default, and forgotten?",
            )

    def open(self, context: RetrieverContext) -> _OpenBm25:
        return _OpenBm25(self, context)

    def left_out(self) -> frozenset[str]:
        """The stop words, as they are written. Raises ConfigError."""
        if not isinstance(self.stop_words, str):
            return frozenset(self.stop_words)
        if self.stop_words in (terms.NONE, *terms.STOP_WORD_LANGUAGES):
            return terms.stop_words_of(self.stop_words)
        return terms.read_stop_words(Path(self.stop_words))

    def terms_parts(self, texts: str) -> dict[str, Any]:
        """The parts of the key of the terms of the texts of that name, as JSON values."""
        options = {"stemmer": self.stemmer, "stop_words": sorted(self.left_out()), "title_weight": self.title_weight}
        return {"texts": texts, **options, "version": terms.TERMS_VERSION, "packages": self.versions()}


class _OpenBm25:
    """Loads its index when it is first asked, and keeps it."""

    def __init__(self, retriever: Bm25Retriever, context: RetrieverContext) -> None:
        self.retriever = retriever
        self.context = context
        self.analyzer = terms.Analyzer(retriever.stemmer, retriever.left_out())

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        index = self._index
        codes = [index.known(self.analyzer.terms(question.text)) for question in questions]
        facts = {"terms": len(index.vocabulary), "queries_without_known_words": sum(not known for known in codes)}
        return Candidates.of(self.context.chunks(), index.search(codes, depth), facts)

    @cached_property
    def _index(self) -> terms.TermIndex:
        context, lists = self.context, self._lists
        if not lists.total:
            raise RunError(
                f"{context.setting}: no chunk has a word to look up, ignoring stop words "
                f"({counted(len(lists), 'chunk')}); BM25 needs words. Look at the chunks with `ragtrial chunks`."
            )
        order = place_order(context.chunks())
        weighting = self.retriever.weighting
        parts = {
            "terms": self.retriever.terms_parts(context.texts().name),
            "weighting": [weighting.method, float(weighting.k1), float(weighting.b), float(weighting.delta)],
            "version": terms.INDEX_VERSION,
        }
        return context.keep(
            "bm25",
            parts,
            "BM25 index",
            lambda folder: terms.TermIndex.write(folder, lists, weighting),
            lambda folder: terms.TermIndex(folder, lists.vocabulary, order),
        )

    @cached_property
    def _lists(self) -> terms.TermLists:
        context, retriever = self.context, self.retriever
        texts = context.texts()

        def build(folder: Path) -> None:
            with stage(context.progress, "reading terms", len(texts), "chunks") as progress:
                pairs = texts.titled_texts()
                terms.TermLists.write(folder, pairs, self.analyzer, retriever.title_weight, progress.advance)

        def read(folder: Path) -> terms.TermLists:
            lists = terms.TermLists(folder)
            if len(lists) != len(texts):
                raise ValueError(f"has the terms of {len(lists)} chunks, not {len(texts)}")
            return lists

        return context.keep("terms", retriever.terms_parts(texts.name), "terms of the chunks", build, read)
