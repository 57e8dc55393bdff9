"""Hypothesis strategies for texts: as users write them, and as nobody should have to."""

from hypothesis import strategies as st

from ragtrial.dataset.texts import normalised

WHITE_SPACE = (" ", "  ", "\n", "\n\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x85", "\x0b", "\x1c")
DROPPED = ("\x00", "\x07", "\x1b", "\u200b", "\u200d", "\u00ad", "\ufffd", "\ufeff", "\ufe0f")
"""Characters that are not white space and that BERT's tokenizer drops or does not know."""

_WORDS = ("a", "retrieval", "Embeddings", "don't", "v2.1", "naïve", "Straße", "unbelievably", "3,400", "C#", "e.g.")
_OTHER = ("東京都", "検索エンジン", "한국어", "값", "नमस्ते", "שלום", "👩‍👩‍👧", "🇳🇱", "🙂", "𝔘𝔫𝔦", "①", "ﬁ", "½")
_MARKS = ("e\u0301\u0323", "a\u0308", "\u0301", "x\u0336", "ก็", "ợ̣")
_ENDS = (". ", "! ", ", ", ".\n", "\n\n", "\n", " ")

long_words = st.builds(
    lambda letter, length: letter * length, st.sampled_from("abx0é한東\x00"), st.sampled_from([30, 99, 100, 101, 250])
)
huge_white_space = st.builds(lambda mark, length: mark * length, st.sampled_from(WHITE_SPACE), st.integers(50, 400))

_pieces = st.one_of(
    st.sampled_from(_WORDS + _WORDS + _OTHER + _MARKS + DROPPED),
    st.sampled_from(_ENDS),
    st.sampled_from(WHITE_SPACE),
    long_words,
    huge_white_space,
    st.text(max_size=6),
)

any_texts = st.one_of(
    st.text(st.characters(), max_size=40), st.lists(st.one_of(_pieces, st.just("\r\n"), st.just("\r"))).map("".join)
)
"""Any strings, half surrogate pairs and every kind of line end among them."""

document_texts = st.one_of(
    st.lists(_pieces, max_size=40).map("".join),
    st.lists(st.tuples(st.sampled_from(_WORDS + _OTHER), st.sampled_from(_ENDS)).map("".join), max_size=60).map(
        "".join
    ),
).map(normalised)
"""Normalised texts of documents: words of many scripts, and all that makes chunking hard."""

words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
sentences = st.lists(words, min_size=1, max_size=8).map(" ".join)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """The size of chunks, and their overlap."""
    size = draw(st.one_of(st.integers(1, 12), st.integers(1, 80)))
    return size, draw(st.integers(0, size - 1))
