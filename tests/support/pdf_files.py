"""Small PDF files, written by hand from the format's description (ISO 32000-1), so that no other reader is needed."""

import hashlib
from collections.abc import Sequence

_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
"""What fills up a password (7.6.3.3)."""


def pdf(pages: Sequence[str], *, title: str = "", password: str | None = None, owner: str = "owner") -> bytes:
    """A PDF with these pages, each a text of lines, none for an empty page; any characters that have a code.

    With a ``password`` it is encrypted (RC4, 40 bits), and opens without being asked only if that is empty.
    """
    letters = sorted({letter for page in pages for letter in page if letter != "\n"})
    code_of = {letter: code for code, letter in enumerate(letters, 1)}
    bodies = [_content(page, code_of) for page in pages]
    first = 6  # the page of number n is object first + 2n, its content the one behind it
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects: list[tuple[str, bytes | None]] = [
        ("<< /Type /Catalog /Pages 2 0 R >>", None),
        (f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>", None),
        ("<< /Type /Font /Subtype /Type0 /BaseFont /Plain /Encoding /Identity-H /DescendantFonts [<< /Type /Font "
         "/Subtype /CIDFontType2 /BaseFont /Plain /DW 500 /CIDSystemInfo << /Registry () /Ordering () /Supplement 0 >>"
         " /FontDescriptor << /Type /FontDescriptor /FontName /Plain /Flags 4 /FontBBox [0 -200 1000 800] /ItalicAngle "
         "0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >> >>] /ToUnicode 4 0 R >>", None),
        ("<< /Length %d >>", _to_unicode(code_of)),
        ("<< /Title %s >>", None),
    ]  # fmt: skip
    for number, body in enumerate(bodies):
        page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F 3 0 R >> >> "
        objects += [(f"{page}/Contents {first + 2 * number + 1} 0 R >>", None), ("<< /Length %d >>", body)]
    return _file(objects, title, None if password is None else _Lock(password, owner))


class _Lock:
    """The standard security handler, revision 2 (7.6.2 to 7.6.4)."""

    identity = b"sixteen bytes id"
    permissions = -4

    def __init__(self, user: str, owner: str) -> None:
        owner_key = hashlib.md5(_padded(owner)).digest()[:5]
        self.owner_entry = _rc4(owner_key, _padded(user))
        permissions = self.permissions.to_bytes(4, "little", signed=True)
        self.key = hashlib.md5(_padded(user) + self.owner_entry + permissions + self.identity).digest()[:5]
        self.user_entry = _rc4(self.key, _PADDING)

    def locked(self, number: int, content: bytes) -> bytes:
        """``content`` of the object of that number, encrypted."""
        return _rc4(hashlib.md5(self.key + number.to_bytes(3, "little") + b"\0\0").digest()[:10], content)

    @property
    def trailer(self) -> str:
        entries = f"/O <{self.owner_entry.hex()}> /U <{self.user_entry.hex()}> /P {self.permissions}"
        return f"/Encrypt << /Filter /Standard /V 1 /R 2 {entries} >> /ID [<{self.identity.hex()}> <>] "


def _padded(password: str) -> bytes:
    return (password.encode("latin-1") + _PADDING)[:32]


def _rc4(key: bytes, content: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    made, i, j = bytearray(), 0, 0
    for byte in content:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        made.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(made)


def _content(page: str, code_of: dict[str, int]) -> bytes:
    """The lines of a page from top to bottom, 14 points apart."""
    lines = ["".join(f"{code_of[letter]:04x}" for letter in line) for line in page.split("\n")] if page else []
    shown = "".join(f"<{line}> Tj 0 -14 Td\n" for line in lines)
    return f"BT /F 12 Tf 50 800 Td\n{shown}ET".encode()


def _to_unicode(code_of: dict[str, int]) -> bytes:
    rows = "".join(f"1 beginbfchar\n<{code:04x}> <{letter.encode('utf-16-be').hex()}>\nendbfchar\n"
                   for letter, code in code_of.items())  # fmt: skip
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Own def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <ffff> endcodespacerange\n{rows}endcmap end end"
    ).encode()


def _file(objects: Sequence[tuple[str, bytes | None]], title: str, lock: _Lock | None) -> bytes:
    made = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, (dictionary, stream) in enumerate(objects, 1):
        places.append(len(made))
        if "/Title %s" in dictionary:
            value = b"\xfe\xff" + title.encode("utf-16-be")
            dictionary %= f"<{(lock.locked(number, value) if lock else value).hex()}>"
        made += f"{number} 0 obj\n".encode()
        if stream is None:
            made += dictionary.encode()
        else:
            made += (dictionary % len(stream)).encode() + b"\nstream\n"
            made += (lock.locked(number, stream) if lock else stream) + b"\nendstream"
        made += b"\nendobj\n"
    start = len(made)
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    made += f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n{rows}".encode()
    trailer = f"/Size {len(places) + 1} /Root 1 0 R /Info 5 0 R {lock.trailer if lock else ''}"
    made += f"trailer\n<< {trailer}>>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(made)
