"""Documents are read from a folder or from a corpus.jsonl, as a stream, with all faults at the end."""

import gzip
import json
import os
from pathlib import Path

import pytest

from corpora import write_files, write_rows
from expectations import message_of
from forms import qrels_rows
from ragtrial.cache import untrusted
from ragtrial.dataset.documents import (
    HIDDEN,
    MOST_CHARACTERS,
    corpus_files,
    corpus_fingerprint,
    read_documents,
    unsupported_files,
)
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.errors import CorpusError, Fault
from ragtrial.records import Document, Judgment
from ragtrial.runs.inputs import read_qrels


def fault_of(corpus: Path) -> str:
    return message_of(CorpusError, list, read_documents(corpus))


def way_on(corpus: Path) -> str:
    """What is said after the faults of files or rows that may be left out."""
    return f"\n{corpus}: `dataset.on_error: skip` leaves out what cannot be read, and names it."


def test_folders_are_read_in_the_order_of_their_paths_even_if_hidden_themselves(tmp_path: Path) -> None:
    write_files(tmp_path, {"b.txt": "B", "a/z.md": "Z", "a/b/c.txt": "C", "a.txt": "A", "B.TXT": "upper"})
    assert [document.id for document in read_documents(tmp_path)] == ["B.TXT", "a.txt", "a/b/c.txt", "a/z.md", "b.txt"]
    corpus = write_files(tmp_path / ".data" / "corpus", {"a.txt": "A"})
    assert [document.id for document in read_documents(corpus)] == ["a.txt"]


def test_linked_folders_are_not_entered_and_are_counted(tmp_path: Path) -> None:
    write_files(tmp_path / "elsewhere", {"b.txt": "B"})
    corpus = write_files(tmp_path / "corpus", {"a.txt": "A"})
    (corpus / "more").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (corpus / "round.md").symlink_to(corpus, target_is_directory=True)
    assert [document.id for document in read_documents(corpus)] == ["a.txt"]
    assert unsupported_files(corpus) == {"linked folder": 2}


def test_files_of_other_kinds_are_counted_by_the_end_of_their_names(tmp_path: Path) -> None:
    names = ("a.md", "b.DOC", "c.doc", "sub/d.rst", ".hidden/e.doc", "f.PDF", "LICENSE", "g.md/h.py")
    corpus = write_files(tmp_path, dict.fromkeys(names, "x"))
    assert unsupported_files(corpus) == {".doc": 2, ".rst": 1, "LICENSE": 1, ".py": 1}


def test_links_to_files_are_read_and_links_to_nothing_are_named(tmp_path: Path) -> None:
    corpus = write_files(tmp_path / "corpus", {"a.txt": "A"})
    (corpus / "b.txt").symlink_to(corpus / "a.txt")
    (corpus / "gone.md").symlink_to(tmp_path / "nowhere.md")
    documents = read_documents(corpus)
    assert [next(documents).id, next(documents).id] == ["a.txt", "b.txt"]
    message = message_of(CorpusError, next, documents)
    told = f"{corpus}/gone.md: is a link to {tmp_path}/nowhere.md, which is not there; mend the link, or remove it."
    assert message == told + way_on(corpus)
    skipped: list[Fault] = []
    assert len(list(read_documents(corpus, skipped))) == 2
    assert [fault.message for fault in skipped] == [told.partition(": ")[2]]


def test_the_title_of_a_page_is_its_title_element_and_a_plain_text_has_none(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "a.html": "<title>Cafe\u0301</title>\r\n<h1>Menu</h1>\r\n<p>Tea</p>",
            "b.HTM": "<h1>Menu</h1>",
            "c.txt": "# not markdown",
        },
    )
    assert list(read_documents(tmp_path)) == [
        Document("a.html", "# Menu\n\nTea", "Caf\u00e9"),
        Document("b.HTM", "# Menu", "Menu"),
        Document("c.txt", "# not markdown", ""),
    ]


def test_a_document_too_long_is_refused_by_name_and_one_as_long_as_may_be_is_read(tmp_path: Path) -> None:
    """In a file of its own and in a row of a corpus.jsonl."""
    for name, length in (("fits", MOST_CHARACTERS), ("long", MOST_CHARACTERS + 1)):
        folder = tmp_path / name
        write_files(folder, {"a.txt": "a" * length, "corpus.jsonl": json.dumps({"_id": "a", "text": "a" * length})})
        for corpus, place, document in (
            (folder, "a.txt: has", ""),
            (folder / "corpus.jsonl", ":1: ", "document 'a' has"),
        ):
            if name == "fits":
                assert [len(one.text) for one in read_documents(corpus)] == [MOST_CHARACTERS]
                continue
            with pytest.raises(CorpusError, match=f"{place}{document} 10,000,001 .*; a document may have 10,000,000"):
                list(read_documents(corpus))


def test_a_page_of_elements_inside_one_another_is_refused_by_name_and_in_time(tmp_path: Path) -> None:
    """The parser looks through all open elements for an end tag: a megabyte took 13 seconds."""
    page = tmp_path / "a.html"
    page.write_text("<b>x</i>" * 125_000, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a\.html: has more than 2,000 elements inside one another"):
        list(read_documents(tmp_path))
    page.write_text("<b>" * 1_990 + "x", encoding="utf-8")
    assert [one.text for one in read_documents(tmp_path)] == ["x"]


def test_a_file_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes no such name")
    assert fault_of(tmp_path) == f"{tmp_path}/caf\udce9.txt: has a name that is not UTF-8; rename it." + way_on(
        tmp_path
    )


def test_a_corpus_that_is_not_there_and_one_without_documents_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "empty", {"a.rst": "x", ".b.txt": "x"})
    (tmp_path / "empty.jsonl").write_text("\n\n")
    absent = tmp_path / "absent"
    message = message_of(CorpusError, corpus_files, absent)
    assert message == f"{absent}: there is no such folder or file; `dataset.corpus` names it."
    assert fault_of(tmp_path / "empty") == (
        f"{tmp_path}/empty: has no documents; files ending in .htm, .html, .markdown, .md, .pdf, .txt are read."
    )
    assert fault_of(tmp_path / "empty.jsonl") == (
        f"{tmp_path}/empty.jsonl: has no documents; each line must be one JSON object."
    )
    assert fault_of(tmp_path / "absent.jsonl") == f"{tmp_path}/absent.jsonl: cannot be read: No such file or directory."


ROWS: list[dict[str, object]] = [
    {"_id": "b", "title": "Cafe\u0301", "text": "one\r\ntwo"},
    {"_id": 7, "text": "half \ud83d", "metadata": {"url": "x"}},
    {"id": "a", "title": None, "text": ""},
]
READ = [Document("b", "one\ntwo", "Caf\u00e9"), Document("7", "half \ufffd"), Document("a", "")]


def test_rows_are_read_in_their_order_and_ids_stand_once(tmp_path: Path) -> None:
    assert list(read_documents(write_rows(tmp_path / "corpus.jsonl", ROWS))) == READ
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id": "a", "text": "x\u2028y\x85z"}\n', encoding="utf-8")
    assert list(read_documents(path)) == [Document("a", "x\u2028y\x85z")]
    rows = [{"_id": name, "text": "x"} for name in ("a", "b", "a", 1, "1", "a")]
    path = write_rows(tmp_path / "corpus.jsonl", rows)
    assert fault_of(path) == (
        f"{path}:3: document 'a' is in line 1 already.\n"
        f"{path}:5: document '1' is in line 4 already.\n"
        f"{path}:6: document 'a' is in line 1 already." + way_on(path)
    )
    folder = write_files(tmp_path / "folder", {"one.md": "# Title"})
    said = message_of(CorpusError, corpus_fingerprint, folder / "one.md")
    message = "a corpus that is one file must be a .jsonl or .jsonl.gz; for documents name their folder."
    assert said == f"{folder / 'one.md'}: {message}"
    assert "says that it is in 'klingon'" in fault_of(write_files(tmp_path, {"a.html": b"<meta charset=klingon>\xe9"}))


@pytest.mark.parametrize(("line", "place", "message"), [
    (b'{"_id" "a"}', ":2:8", "is not JSON: Expecting ':' delimiter."),
    (b'["a"]', ":2", "must be a JSON object, in {}."),
    (b'{"_id": "a"}', ":2", "text must be a text; found keys: _id."),
    (b'{"text": "a"}', ":2", "_id must be a text; found keys: text."),
    (b'{"_id": true, "text": 1, "title": 2}', ":2",
     "_id and text and title must be a text; found keys: _id, text, title."),
    (b'{"_id": null, "text": "a"}', ":2", "_id must be a text; found keys: _id (null), text."),
    (b'{"_id": "\\ud800", "text": "a"}', ":2", "document id '\\ud800' has half of a surrogate pair."),
    (b"[" * 100_000, ":2", "has a number too long, or is nested too deeply, to be read."),
    (b'{"_id": 1' + b"0" * 5000 + b"}", ":2", "has a number too long, or is nested too deeply, to be read."),
    (b'{"_id": "caf\xe9"}', ":2", "byte 0xe9 is not UTF-8; save the file as UTF-8 (iconv -f CP1252 -t UTF-8)."),
])  # fmt: skip
def test_a_row_that_is_none_is_refused_with_its_line(tmp_path: Path, line: bytes, place: str, message: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"_id": "good", "text": "x"}\n' + line + b"\n")
    assert fault_of(path) == f"{path}{place}: {message}" + way_on(path)


def test_the_fingerprint_follows_bytes_and_names_and_not_the_place_of_the_folder(tmp_path: Path) -> None:
    files = {"a.txt": "A", "sub/b.txt": "B"}
    one = corpus_fingerprint(write_files(tmp_path / "one", files))
    assert corpus_fingerprint(write_files(tmp_path / "two", files | {"c.rst": "not read", ".d.txt": "hidden"})) == one
    others = [{"a.txt": "A", "sub/b.txt": "B "}, {"a.txt": "A", "sub/c.txt": "B"}, {"a.txt": "B", "sub/b.txt": "A"},
              {"a.txt": "A"}, {"a.md": "A", "sub/b.txt": "B"}]  # fmt: skip
    found = {corpus_fingerprint(write_files(tmp_path / f"other-{n}", other)) for n, other in enumerate(others)}
    assert len(found | {one}) == len(others) + 1


MARKDOWN = {
    "a comment": ("<!--\n# internal\n-->\n# Дверь\n", "Дверь"),
    "marks of Markdown": ("# The `reset` **command** [here](x)\n", "The reset command here"),
    "a sign in it": ("# C#\n", "C#"),
    "a long run of spaces": ("# a" + " " * 50_000 + "b", "a b"),
    "underlined, on two lines": ("照明の\n説明\n=====\n", "照明の 説明"),
    "closed with signs": ("# مرحبا ##\n", "مرحبا"),
    "in a fence of other signs": ("````md\n# no\n```\n# no\n````\n# Ναι\n", "Ναι"),
    "in a fence without an end": ("~~~sh\n# no\n", ""),
    "indented code": ("    # no\n\n# है\n", "है"),
    "a second level alone, and bold": ("## no\n\n**no**\n", ""),
    "GitHub's logo": ('<h1 align="center">no</h1>\n\n# Q&amp;A\n', "Q&A"),
    "without the space": ("#no\n\n#\tyes\n", "yes"),
    "an escaped sign": ("\\# no\n\n# A \\# B\n", "A # B"),
    "MyST's target, MDX's import": ("import X from './x'\n\n(target)=\n# Замок\n", "Замок"),
    "in a quotation and a list": ("> # no\n\n- # no\n", ""),
}


@pytest.mark.parametrize(("text", "title"), MARKDOWN.values(), ids=MARKDOWN)
def test_the_title_is_a_heading_as_commonmark_defines_it(tmp_path: Path, text: str, title: str) -> None:
    (document,) = read_documents(write_files(tmp_path, {"page.md": text}))
    assert (document.title, document.text) == (title, text)


FRONT = {
    "YAML": ("---\ntitle: Lamp\ndraft: true\n---\n\n", "Lamp"),
    "quoted, with a colon": ("---\ntitle: 'Lamp: a manual'\n...\n", "Lamp: a manual"),
    "a number": ("---\nTitle: 2024\n---\n", "2024"),
    "several lines": ("---\ntags: [a]\ntitle: >\n  照明の\n  説明\n---\n", "照明の 説明"),
    "no title": ("---\ntags: [a]\n---\n", "Heading"),
    "a title that is null": ("---\ntitle: ~\n---\n", "Heading"),
    "TOML": ('+++\ntitle = "Pump"\n# draft note\n+++\n', "Pump"),
    "TOML without a title": ("+++\ndraft = true\n+++\n", "Heading"),
    "nothing in it": ("---\n---\n", "Heading"),
    "Obsidian": ("---\naliases:\n  - no\ntags: [ランプ]\n---\n", "Heading"),
    "Jekyll": ("---\nlayout: post\ntitle:  Ätna\ndate: 2026-01-31 12:00:00 +0100\n---\n", "Ätna"),
    "a title inside": ("---\nseo:\n  title: no\n---\n", "Heading"),
    "Hugo": ('+++\ntitle = "Насос"\n[params]\ntitle = "no"\n+++\n', "Насос"),
}


@pytest.mark.parametrize(("front", "title"), FRONT.values(), ids=FRONT)
def test_front_matter_is_metadata_and_names_the_title(tmp_path: Path, front: str, title: str) -> None:
    (document,) = read_documents(write_files(tmp_path, {"page.md": f"{front}# Heading\n\nText."}))
    assert (document.title, document.text) == (title, "# Heading\n\nText.")


@pytest.mark.parametrize(
    "text",
    ["---\nA rule above.\n\n---\nb\n", "---\n\nNote: a rule above\n\n---\n", "---\na: b: c\n---\n", "+++\nno\n+++\n",
     "---\na: 1\n"],
)  # fmt: skip
def test_what_only_looks_like_front_matter_stays_in_the_text(tmp_path: Path, text: str) -> None:
    (document,) = read_documents(write_files(tmp_path, {"page.md": text}))
    assert (document.title, document.text) == ("", text)


DECLARED = {
    "windows-1251": ("<meta charset=windows-1251>", "Перезапустите"),
    "Shift_JIS": ('<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">', "再起動①"),
    "gb2312": ("<META CHARSET='gb2312'>", "重新启动"),
    "iso-8859-1": ('<?xml version="1.0" encoding="iso-8859-1"?>', "“café” 5 €"),
    "ISO-2022-JP": ("<meta charset='ISO-2022-JP'>", "再起動"),
    "iso-8859-9": ("<meta charset=iso-8859-9>", "değiş"),
    "euc-kr": ("<meta charset='euc-kr'>", "버튼을 누르세요"),
    "Big5": ("<meta charset=Big5>", "按下按鈕"),
    "koi8-r": ("<meta http-equiv=content-type content='text/html;charset=koi8-r'>", "Нажмите"),
    "windows-1255": ("<meta charset=windows-1255>", "לחץ"),
    "tis-620": ("<meta charset=tis-620>", "กดปุ่ม"),
}
WRITTEN = {"Shift_JIS": "cp932", "iso-8859-1": "cp1252"}


@pytest.mark.parametrize("charset", DECLARED)
def test_a_page_is_read_in_the_charset_that_it_declares_or_as_utf_8(tmp_path: Path, charset: str) -> None:
    meta, text = DECLARED[charset]
    page = f"{meta}<p>{text}</p>"
    encodings = [WRITTEN.get(charset, charset), "utf-16", *([] if charset == "ISO-2022-JP" else ["utf-8"])]
    write_files(tmp_path, {f"{encoding}.html": page.encode(encoding) for encoding in encodings})
    assert {document.text for document in read_documents(tmp_path)} == {text}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16 packed"])
def test_rows_and_texts_are_read_as_their_byte_order_mark_says(tmp_path: Path, encoding: str) -> None:
    """Of a folder, of corpus.jsonl, of labels and of qrels alike."""
    name, packed = encoding.removesuffix(" packed"), encoding.endswith("packed")
    rows = '{"_id": "ключ", "title": "猫", "text": "“café” שלום"}\n\n{"_id": 7.0, "text": "x"}\n'.encode(name)
    corpus = tmp_path / ("corpus.jsonl.gz" if packed else "corpus.jsonl")
    corpus.write_bytes(gzip.compress(rows) if packed else rows)
    assert list(read_documents(corpus)) == [Document("ключ", "“café” שלום", "猫"), Document("7", "x")]
    labels = '{"queries": [{"id": "ж", "text": "猫?", "relevant_docs": [{"doc": "ключ", "relevance": 2.0}]}]}'
    (tmp_path / "labels.json").write_bytes(labels.encode(name))
    (query,) = load_prompt_queries(tmp_path / "labels.json").queries
    assert (query.text, query.relevant_docs) == ("猫?", (Judgment("ключ", 2),))
    for number, text in enumerate(("query-id\tcorpus-id\tscore\nж\tключ\t2\n", "ж 0 ключ 2\n", '{"ж": {"ключ": 2}}')):
        (tmp_path / f"{number}.qrels").write_bytes(text.encode(name))
        assert qrels_rows(read_qrels(tmp_path / f"{number}.qrels")) == {"ж": {"ключ": 2}}


HIDDEN_NAMES = {  # what keeps such files: agents, static sites, editors, macOS, office suites, people
    "an agent's rules": (".rules.md", 1),
    "a draft below": ("sub/.draft.TXT", 1),
    "macOS's other half": ("sub/deep/._manual.pdf", 1),
    "Japanese": ("メモ/.下書き.txt", 1),
    "no document": (".gitignore", 0),
    "in a hidden folder": (".git/readme.md", 0),
    "an open document of an office suite": ("sub/~$Отчёт.docx", 0),
    "an editor's copy": (".文書.md.swp", 0),
    "a hidden page": ("site/.المسودة.html", 1),
}


@pytest.mark.parametrize("case", HIDDEN_NAMES)
def test_documents_with_hidden_names_are_counted_and_hidden_folders_are_not_entered(tmp_path: Path, case: str) -> None:
    name, count = HIDDEN_NAMES[case]
    corpus = write_files(tmp_path, {"a.md": "x", name: "x"})
    assert unsupported_files(corpus)[HIDDEN] == count
    assert [document.id for document in read_documents(corpus)] == ["a.md"]


def test_packed_corpora_have_a_longest_line_and_a_usual_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "LONGEST_LINE", 2**20)
    corpus = tmp_path / "corpus.jsonl.gz"
    corpus.write_bytes(gzip.compress(b'{"_id": "a", "text": "' + bytes(2**22).replace(b"\0", b"x") + b'"}'))
    assert fault_of(corpus) == f"{corpus}: cannot be read: it has a line of more than 1,048,576 bytes."
    monkeypatch.setattr(untrusted, "_USUAL_SIZE", 2**22)
    corpus = tmp_path / "corpus.jsonl.gz"
    row = b'{"_id": "a", "text": ""}' + bytes(1_000).replace(b"\0", b" ") + b"\n"
    corpus.write_bytes(gzip.compress(row * 8_000))
    assert "which is more than is stated or usual" in fault_of(corpus)
