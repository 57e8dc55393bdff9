"""What is indexed for a chunk, option by option; the chunk's span and text are as they were."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from corpora import write_rows
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.components.contextual_text import ContextOptions, IndexedTexts, Surroundings
from ragtrial.dataset.chunks import Chunks, ChunksWriter
from ragtrial.dataset.library import Library
from ragtrial.records import Span

MANUAL = """\
# Manual

Intro one. Intro two.

## Setup

### Install

Put it in. Turn it on. Wait.

## Use

Press go."""


def chunks_in(folder: Path, text: str, spans: Sequence[Span], title: str = "Manual") -> Chunks:
    corpus = write_rows(folder / "corpus.jsonl", [{"_id": "m", "title": title, "text": text}])
    Library.write(corpus, folder)
    library = Library(folder)
    writer = ChunksWriter()
    for span in spans:
        writer.add(0, "m", library.text(0), span)
    writer.write(folder)
    return Chunks(library, folder)


def span_of(piece: str, text: str = MANUAL) -> Span:
    assert text.count(piece) == 1
    return Span(text.index(piece), text.index(piece) + len(piece))


def indexed(
    folder: Path, chunks: Chunks, context: ContextOptions, prefixes: Sequence[str | None] | None = None
) -> IndexedTexts:
    if context.is_bare and prefixes is None:
        return IndexedTexts(chunks, title=context.title)
    made = folder / "contexts"
    made.mkdir(exist_ok=True)
    Surroundings.write(made, chunks, context, prefixes)
    return IndexedTexts(chunks, title=context.title, surroundings=Surroundings.read(made))


def one(folder: Path, piece: str, options: Mapping[str, object], prefix: str | None = None, text: str = MANUAL) -> str:
    """What is indexed for the chunk ``piece`` of ``text``; ``options`` may have the document's title as `document`."""
    chunks = chunks_in(folder, text, [span_of(piece, text)], str(options.get("document", "Manual")))
    prefixes = None if prefix is None else [prefix]
    context = ContextOptions.model_validate({key: one for key, one in options.items() if key != "document"})
    texts = indexed(folder, chunks, context, prefixes)
    (found,) = texts.indexed_texts()
    assert chunks.text(0) == piece
    before, after = texts.around(0)
    assert before + piece + after == found
    return found


@pytest.mark.parametrize(("piece", "options", "expected"), [
    ("Turn it on.", {}, "Manual Turn it on."),
    ("Turn it on.", {"title": False}, "Turn it on."),
    ("Turn it on.", {"headings": True}, "Manual Setup > Install Turn it on."),
    ("Turn it on.", {"headings": True, "title": False}, "Manual > Setup > Install Turn it on."),
    ("Turn it on.", {"headings": True, "document": "Guide"}, "Guide Manual > Setup > Install Turn it on."),
    ("Intro one.", {"headings": True}, "Manual Intro one."),
    ("### Install\n\nPut it in.", {"headings": True}, "Manual Setup ### Install\n\nPut it in."),
    ("stall\n\nPut it in.", {"headings": True}, "Manual Setup > Install stall\n\nPut it in."),
    ("Wait.\n\n## Use", {"headings": True}, "Manual Setup > Install Wait.\n\n## Use"),
    ("# Manual\n\nIntro one.", {"headings": True}, "Manual # Manual\n\nIntro one."),
    ("Turn it on.", {"sentences": 1}, "Manual Put it in. Turn it on. Wait."),
    ("Turn it on.", {"sentences": 2}, "Manual ### Install\n\nPut it in. Turn it on. Wait.\n\n## Use"),
    ("it on", {"sentences": 1}, "Manual Turn it on."),
    ("Press go.", {"sentences": 9, "title": False}, MANUAL),
    ("Put it in.", {"sentences": 1, "headings": True}, "Manual Setup ### Install\n\nPut it in. Turn it on."),
    ("Turn it on.", {"prefix": ""}, "Manual Turn it on."),
    ("Turn it on.", {"prefix": "On it.", "title": False}, "On it. Turn it on."),
    ("Turn it on.", {"prefix": "On it.", "headings": True, "sentences": 1},
     "Manual Setup > Install On it. Put it in. Turn it on. Wait."),
])  # fmt: skip
def test_options_compose_indexed_texts(tmp_path: Path, piece: str, options: dict[str, object], expected: str) -> None:
    others = {key: value for key, value in options.items() if key != "prefix"}
    prefix = options.get("prefix")
    assert one(tmp_path, piece, others, None if prefix is None else str(prefix)) == expected


def test_a_title_is_not_repeated_and_stands_for_a_chunk_without_text(tmp_path: Path) -> None:
    text = "# The **new** `hub`\n\nBlue light.\n\n## The **new** `hub`\n\nRed light."
    found = one(tmp_path, "Red light.", {"document": "The **new** `hub`", "headings": True}, text=text)
    assert found == "The **new** `hub` The new hub Red light."
    chunks = chunks_in(tmp_path, " ", [Span(0, 0)])
    texts = indexed(tmp_path, chunks, ContextOptions(headings=True, sentences=2))
    assert (list(texts.indexed_texts()), texts.around(0)) == (["Manual"], ("Manual", ""))


def test_texts_come_by_position_in_any_order_across_documents(tmp_path: Path) -> None:
    rows = [{"_id": name, "title": name, "text": f"# {name}\n\n## Sub {name}\n\none. two. three."} for name in "ab"]
    Library.write(write_rows(tmp_path / "corpus.jsonl", rows), tmp_path)
    library, writer = Library(tmp_path), ChunksWriter()
    for position in range(2):
        for piece in ("one.", "three."):
            writer.add(position, "ab"[position], library.text(position), span_of(piece, library.text(position)))
    writer.write(tmp_path)
    texts = indexed(tmp_path, Chunks(library, tmp_path), ContextOptions(headings=True))
    assert list(texts.indexed_texts()) == ["a Sub a one.", "a Sub a three.", "b Sub b one.", "b Sub b three."]
    assert list(texts.indexed_texts([3, 0, 2])) == ["b Sub b three.", "a Sub a one.", "b Sub b one."]
    assert len(texts) == 4


@given(st.lists(st.sampled_from(["A b. ", "c d ", "Ee! ", "\n\n", "# H\n", "x"]), max_size=12), st.data())
def test_the_stretch_holds_the_chunk_and_so_many_sentences_on_either_side(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(pieces)
    start = data.draw(st.integers(0, len(text)))
    span = Span(start, data.draw(st.integers(start, len(text))))
    most = data.draw(st.integers(0, 3))
    folder = tmp_path_factory.mktemp("stretch")
    chunks = chunks_in(folder, text, [span], title="")
    texts = indexed(folder, chunks, ContextOptions(sentences=most, headings=True))
    assert texts.surroundings
    stretch = Span(int(texts.surroundings.start[0]), int(texts.surroundings.end[0]))
    assert 0 <= stretch.start <= span.start <= span.end <= stretch.end <= len(text)
    begun = [one.start for one in sentences(text) if one.start < span.start]
    ended = [one.end for one in sentences(text) if one.end > span.end]
    assert sum(start >= stretch.start for start in begun) == min(most, len(begun))
    assert sum(end <= stretch.end for end in ended) == min(most, len(ended))
    before, after = texts.around(0)
    assert [before + chunks.text(0) + after] == list(texts.indexed_texts())


def test_the_name_is_that_of_the_chunks_and_of_what_is_added(tmp_path: Path) -> None:
    chunks = chunks_in(tmp_path, MANUAL, [span_of("Wait.")])
    assert IndexedTexts(chunks).name == chunks.name
    names = {
        IndexedTexts(chunks).name,
        IndexedTexts(chunks, title=False).name,
        indexed(tmp_path, chunks, ContextOptions(headings=True)).name,
        indexed(tmp_path, chunks, ContextOptions(sentences=1)).name,
        indexed(tmp_path, chunks, ContextOptions(), ["p"]).name,
        indexed(tmp_path, chunks, ContextOptions(), ["q"]).name,
    }
    assert len(names) == 6
    by_prefix = indexed(tmp_path, chunks, ContextOptions(), ["Setup > Install"])
    assert by_prefix.name == indexed(tmp_path, chunks, ContextOptions(headings=True)).name
