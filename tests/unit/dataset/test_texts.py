"""Bytes become normalised text, or an error that names the line; values of JSON have a line and a column."""

import gzip
import hashlib
import io
import json
import os
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from ragtrial.dataset.json_places import id_of, json_row, json_value, places
from ragtrial.dataset.texts import as_utf8, decoded, is_unicode, normalised, read_bytes, text_hash
from ragtrial.errors import CorpusError, LabelsError
from text_strategies import any_texts


@pytest.mark.parametrize(("written", "read"), [
    ("a\r\nb\rc\nd\r\r\ne", "a\nb\nc\nd\n\ne"),
    ("cafe\u0301", "caf\u00e9"),
    ("\u1100\u1161\u11a8", "\uac01"),
    ("\ufb01ne \u2460", "\ufb01ne \u2460"),  # NFC, not NFKC: what was written can be quoted
    ("a\ud83d b \ude00", "a\ufffd b \ufffd"),
    ("\U0001f600", "\U0001f600"),
    ("", ""),
])  # fmt: skip
def test_line_ends_composition_and_half_surrogates_are_normalised(written: str, read: str) -> None:
    assert normalised(written) == read


@given(st.lists(st.text("\u0301\u0316\u0344\u0f71\u093c\u0345\u1100\u1161é漢", min_size=60), max_size=6))
def test_many_combining_marks_in_a_row_are_normalised_as_unicode_has_it(texts: list[str]) -> None:
    text = "a".join(texts) + "".join(texts)
    assert normalised(text) == unicodedata.normalize("NFC", text)


@given(any_texts)
def test_a_normalised_text_is_nfc_with_line_feeds_can_be_written_and_stays_as_it_is(text: str) -> None:
    once = normalised(text)
    assert "\r" not in once
    assert unicodedata.is_normalized("NFC", once)
    assert once.encode("utf-8").decode("utf-8") == once
    assert is_unicode(once)
    assert is_unicode(text) == (text.encode("utf-8", "replace").decode() == text)
    for other in (once, once.replace("\n", "\r\n"), once.replace("\n", "\r"), unicodedata.normalize("NFD", once)):
        assert normalised(other) == once


def test_marks_count_at_the_start_and_files_are_unpacked_by_name(tmp_path: Path) -> None:
    assert decoded(b"\xef\xbb\xbfa\xef\xbb\xbfb", "f.txt", CorpusError) == "a\ufeffb"
    assert refusal(b"\xff\xfea\0\n\0b") == (
        "notes.txt:2: byte 0x62 is not UTF-16, which the file says it is; save it as UTF-8."
    )
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"hello", mtime=0))
    (tmp_path / "a.txt").write_bytes(b"\x1f\x8b")
    assert read_bytes(tmp_path / "a.txt.gz", CorpusError) == b"hello"
    assert read_bytes(tmp_path / "a.txt", CorpusError) == b"\x1f\x8b"
    assert text_hash("") == "e3b0c44298fc1c14"  # of FIPS 180-4's examples
    assert text_hash("abc") == "ba7816bf8f01cfea"
    assert text_hash("caf\u00e9") == hashlib.sha256(b"caf\xc3\xa9").hexdigest()[:16]


def refusal(content: bytes) -> str:
    return message_of(CorpusError, decoded, content, "notes.txt", CorpusError)


@pytest.mark.parametrize(("content", "message"), [
    (b"one\ntwo\ncaf\xe9 three\n", "notes.txt:3: byte 0xe9 is not UTF-8"),
    (b"a\r\nb\r\n\xc3", "notes.txt:3: byte 0xc3 is not UTF-8"),
    (b"\xed\xa0\x80", "notes.txt:1: byte 0xed is not UTF-8"),
])  # fmt: skip
def test_a_byte_that_is_not_utf8_is_refused_with_its_line(content: bytes, message: str) -> None:
    assert refusal(content).startswith(message + "; save the file as UTF-8")


NULS = [
    ("Press the button.\n".encode("utf-16-le"), " (iconv -f UTF-16LE -t UTF-8)"),
    ("Press the button.\n".encode("utf-16-be"), " (iconv -f UTF-16BE -t UTF-8)"),
    ("ボタンを押す。\n".encode("utf-16-le"), " (iconv -f UTF-16LE -t UTF-8)"),
    ("Нажмите кнопку.\n".encode("utf-16-be"), " (iconv -f UTF-16BE -t UTF-8)"),
    ("Press\n".encode("utf-32-le"), ""), (b"PK\x03\x04\x14\0\0\0\x08\0\xff\xff", ""), (b"abc\0", ""),
    (b"\xef\xbb\xbfa\0b", ""), (b"\x7fELF\2\1\1\0\0", ""),
]  # fmt: skip


@pytest.mark.parametrize(("content", "way"), NULS)
def test_nul_bytes_are_refused_with_their_line_and_a_way_that_gives_the_text(content: bytes, way: str) -> None:
    line = content.count(10, 0, content.index(0)) + 1
    said = f"notes.txt:{line}: is not a text file: it has NUL bytes. Write it as UTF-8 text{way}, or remove it."
    assert refusal(content) == said


MARKED = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
SCRIPTS = ["“café”, 5 €\n", "Нажмите кнопку.\n", "ボタンを押す。\n", "اضغط\n", "😀\n"]


@pytest.mark.parametrize("encoding", MARKED)
@pytest.mark.parametrize("text", SCRIPTS)
def test_a_text_is_read_as_its_byte_order_mark_says(encoding: str, text: str) -> None:
    content = (("\ufeff" if encoding.endswith(("le", "be")) else "") + text).encode(encoding)
    assert decoded(content, "notes.txt", CorpusError) == text
    assert as_utf8(io.BytesIO(content), "notes.txt", CorpusError).read().decode("utf-8-sig") == text


WESTERN = [
    "“café”, 5 €", "Drücken Sie für 5 s die Taste – „Weiter“", "L’œuvre est déjà prête à 50 %", "¿Qué pasó? ¡Añádelo!",
    "A instalação não é necessária: já está pronta", "Tryck på knappen; fläkten går åt höger", "È già così: perché no?",
    "Paina nappia, kunnes valo syttyy: hääyö on pitkä", "naïve – résumé… 20 £",
]  # fmt: skip
OTHERS = [
    ("cp1251", "Через каждые две минуты нажмите"),
    ("shift_jis", "ボタンを二分ごとに押す"),
    ("gb18030", "按下按钮"),
    ("cp1253", "Πατήστε το κουμπί"),
    ("cp1254", "Düğmeye iki dakikada bir basın; şifreyi girin, ardından kapıyı açın"),
    ("cp1250", "Naciśnij przycisk, włącz urządzenie; zażółć gęślą jaźń"),
    ("cp1251", "The sign says: Когда?"),
    ("cp1253", "Press the button (Πατήστε)"),
    ("cp1255", "The label is שלום and nothing more"),
    ("koi8_r", "See the manual, глава 3"),
    ("cp1250", "Stiskněte tlačítko každé dvě minuty, příliš žluťoučký kůň"),
]


@pytest.mark.parametrize("text", WESTERN)
def test_cp1252_is_advised_where_the_bytes_speak_for_it(text: str) -> None:
    """What the message says to do gives the text that was written."""
    (encoding,) = re.findall(r"iconv -f (\S+) -t UTF-8", refusal(text.encode("cp1252")))
    assert (encoding, text.encode("cp1252").decode(encoding)) == ("CP1252", text)


@pytest.mark.parametrize(("encoding", "text"), OTHERS)
def test_no_advice_spoils_a_text_in_another_encoding(encoding: str, text: str) -> None:
    assert "-f ENCODING" in refusal(text.encode(encoding))


_GOOD = gzip.compress(b"hello, hello, hello\n" * 20, mtime=0)


@pytest.mark.parametrize(("content", "reason"), [
    (b"hello", "Error -3 while decompressing data: incorrect header check"),
    (_GOOD[:-12], "it ends in the middle of its gzip data"),
    (_GOOD[:-8] + b"\0\0\0\0" + _GOOD[-4:], "Error -3 while decompressing data: incorrect data check"),
    (_GOOD[:10] + b"\xff" + _GOOD[11:], "Error -3 while decompressing data: invalid block type"),
    (gzip.compress(bytes(10**8), 9), "it holds more than 76,"),
])  # fmt: skip
def test_a_damaged_archive_is_an_input_error(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    assert message_of(LabelsError, read_bytes, path, LabelsError).startswith(f"{path}: cannot be read: {reason}")


def test_a_missing_file_a_folder_and_a_path_below_a_file_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for path, message in [
        (tmp_path / "absent.json", "there is no such file."),
        (tmp_path, "is a folder; a file is needed here."),
        (file / "below", "cannot be read: Not a directory."),
    ]:
        assert message_of(LabelsError, read_bytes, path, LabelsError) == f"{path}: {message}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_read_permission_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("x")
    path.chmod(0)
    assert message_of(CorpusError, read_bytes, path, CorpusError) == f"{path}: cannot be read: Permission denied."


_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
)
_layouts = st.sampled_from([None, 0, 2, "\t", "\n\n  "])


def paths(value: object, here: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], object]:
    found: dict[tuple[str | int, ...], object] = {here: value}
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= paths(inner, (*here, key))
    if isinstance(value, list):
        for position, inner in enumerate(value):
            found |= paths(inner, (*here, position))
    return found


@given(_values, _layouts, st.booleans())
def test_the_value_of_every_path_starts_at_its_place(value: object, layout: str | int | None, ascii_only: bool) -> None:
    text = "\n " + json.dumps(value, indent=layout, ensure_ascii=ascii_only)
    lines = text.split("\n")
    expected = paths(json.loads(text))
    found = places(text)
    assert found.keys() == expected.keys()
    for path, (line, column) in found.items():
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == expected[path]


def faults_of(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(LabelsError) as caught:
        json_value(text, "x.json", LabelsError, "labels")
    return [(fault.line, fault.column, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(("text", "faults"), [
    ('{"a": 1,\n "b": {"a": 2, "c": 3,\n  "c": 4},\n "a": 5, "a": 6}', [(3, 3, "c"), (4, 2, "a"), (4, 10, "a")]),
    ('{"queries": [{"id": 1, "text": "x"}],\n "queries": [{"id": 2, "text": "y"}]}', [(2, 2, "queries")]),
])  # fmt: skip
def test_a_key_twice_in_one_object_is_named_where_it_is_again(text: str, faults: list[tuple[int, int, str]]) -> None:
    expected = [(line, column, f"duplicate key {key!r} in one object.") for line, column, key in faults]
    assert faults_of(text) == expected


@pytest.mark.parametrize(("text", "constant", "place"), [
    ('{"a": "NaN",\n "b": NaN}', "NaN", (2, 7)),
    ('["Infinity",\n\n-Infinity, NaN]', "-Infinity", (3, 1)),
    ("Infinity", "Infinity", (1, 1)),
])  # fmt: skip
def test_numbers_that_json_lacks_are_refused_where_they_are(text: str, constant: str, place: tuple[int, int]) -> None:
    assert faults_of(text) == [(*place, f"is not JSON: {constant} is not JSON.")]


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', "[1,]", "{'a': 1}", "1 2", '"a\nb"', "// c\n1", '[{"a": 1, "a": 2},]']
)
def test_what_is_not_json_is_refused(text: str) -> None:
    assert len(faults_of(text)) == 1


@pytest.mark.parametrize(("line", "message"), [
    ('{"_id": "a", "text": "x"}', ""),
    ('{"_id": "a", "_id": "b", "text": "x"}', "duplicate key '_id' in one object."),
    ('{"текст": 1, "b": 2, "текст": 1}', "duplicate key 'текст' in one object."),
    ('{"meta": {"k": 1, "k": 2}}', "duplicate key 'k' in one object."),
    ('{"rows": [{"k": 1}, {"k": 2}]}', ""),
    ("[1]", "must be a JSON object, in {}."),
    ("null", "must be a JSON object, in {}."),
    ('{"a": 1', "is not JSON: Expecting ',' delimiter."),
    ("9" * 5000, "has a number too long, or is nested too deeply, to be read."),
])  # fmt: skip
def test_a_row_of_json_lines_is_an_object_with_each_key_once(line: str, message: str) -> None:
    row, wrong, _ = json_row(line)
    assert (wrong, bool(row)) == (message, not message)


@pytest.mark.parametrize(
    ("value", "name"),
    [("a", "a"), (7, "7"), (7.0, "7"), (-1, "-1"), (7.5, None), (True, None), (None, None), (["a"], None), ("", "")],
)
def test_an_id_is_a_text_or_a_whole_number_however_it_is_written(value: object, name: str | None) -> None:
    assert id_of(value) == name
