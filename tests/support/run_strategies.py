"""Run files and qrels as people really make them, and as nobody should: for Hypothesis."""

from hypothesis import strategies as st

SPACES = st.sampled_from([b" ", b"\t", b"  ", b" \t ", b"\v", b"\f ", b" \r "])
QUERIES = st.sampled_from(
    [b"q1", b"q2", b"q3", b"u1", b"u2", b"q#", b"caf\xc3\xa9", b"\xff", b"q" * 70, b"1234567", b"q\0"]
)
DOCUMENTS = st.sampled_from(
    [b"d1", b"d2", b"d3", b"D1234567", b"D1234568", b"#d", b"d#3", b"d\xff", b"x" * 17, b"x" * 16 + b"y", b"z" * 90,
     b"d"]
)  # fmt: skip
RANKS = st.one_of(
    st.integers(0, 5).map(lambda rank: b"%d" % rank),
    st.sampled_from([b"1", b"2", b"03", b"-1", b"+2", b"1_0", b"9" * 19, b"9" * 25, b"9223372036854775807"]),
)
BAD_RANKS = st.sampled_from([b"x", b"1.0", b"_1", b"1_", b"-", b"1__0", b"\xd9\xa1", b"0" * 1001])
SCORES = st.one_of(
    st.integers(0, 3).map(lambda score: b"%d" % score),
    st.sampled_from([b"1e400", b"1.5", b".5", b"5.", b"-0", b"0.0", b"+1", b"1e0", b"15E-1", b"inf", b"-INF",
                     b"Infinity", b"0.1000000000000000055511151231257827", b"12345678901234567890", b"1.50", b"-2.25"]),
)  # fmt: skip
BAD_SCORES = st.sampled_from([b"nan", b"NaN(1)", b"-nan", b"nan(", b"1,5", b"0x10", b"1_0", b"e5", b".", b"1e", b"1e+",
                              b"infi", b"--1", b"1.5.1"])  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b" \n", b"\t\r\n"])
OTHER_LINES = st.sampled_from([b"\n", b"  \r\n", b"# a comment\n", b"  #q1 Q0 d1 1 1 t\n", b"#\n"])
TAGS = st.sampled_from([b"t", b"#t", b"a-long-tag-of-a-run"])


@st.composite
def trec_rows(draw: st.DrawFn, *, is_sound: bool = True) -> bytes:
    ranks, scores = (RANKS, SCORES) if is_sound else (RANKS | BAD_RANKS, SCORES | BAD_SCORES)
    fields = [draw(QUERIES), b"Q0", draw(DOCUMENTS), draw(ranks), draw(scores), draw(TAGS)]
    if not is_sound:
        fields = fields[: draw(st.sampled_from([6, 6, 6, 5, 3, 1]))] + [b"more"] * draw(st.sampled_from([0, 0, 0, 1]))
    return _line(draw, fields)


@st.composite
def msmarco_rows(draw: st.DrawFn, *, is_sound: bool = True) -> bytes:
    ranks = st.integers(1, 60).map(lambda rank: b"%d" % rank) if is_sound else RANKS | BAD_RANKS
    fields = [draw(QUERIES), draw(DOCUMENTS), draw(ranks)]
    if not is_sound:
        fields = fields[: draw(st.sampled_from([3, 3, 2]))] + [b"more"] * draw(st.sampled_from([0, 0, 1]))
    return _line(draw, fields)


@st.composite
def qrels_rows(draw: st.DrawFn, *, is_sound: bool = True) -> bytes:
    grades = [b"0", b"1", b"-2", b"+3", b"2147483647", b"-2147483648", b"007"]
    bad = [] if is_sound else [b"2147483648", b"-2147483649", b"1.0", b"x", b"1_0", b"-", b"9" * 30]
    fields = [draw(QUERIES), b"0", draw(DOCUMENTS), draw(st.sampled_from(grades + bad))]
    return _line(draw, fields if is_sound else fields[: draw(st.sampled_from([4, 4, 4, 3]))])


def _line(draw: st.DrawFn, fields: list[bytes]) -> bytes:
    plain = draw(st.booleans())
    if plain:
        return b" ".join(fields) + b"\n"
    line = draw(st.sampled_from([b"", b" ", b"\t"]))
    for field in fields:
        line += field + draw(SPACES)
    return line.rstrip() + draw(ENDS)


@st.composite
def files(draw: st.DrawFn, rows: st.SearchStrategy[bytes], *, most: int = 40) -> bytes:
    """A file of such rows: often with queries together, sometimes with comments, without a line end, with a BOM."""
    lines = draw(st.lists(rows, max_size=most))
    if draw(st.booleans()):
        lines.sort(key=lambda line: line.split()[:1])
    for at in draw(st.lists(st.integers(0, most), max_size=4)):
        lines.insert(at, draw(OTHER_LINES))
    content = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + b"".join(lines)
    return content.rstrip(b"\r\n") if draw(st.booleans()) else content
