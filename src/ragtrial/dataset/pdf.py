"""The text of a PDF, page by page, by PDFium."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

from ragtrial.dataset.texts import normalised, read_bytes
from ragtrial.errors import CorpusError, Fault, listed
from ragtrial.records import Document, ReportWarning, Span

PAGE_BREAK = "\n\n"
"""The separator of two pages. No character of Unicode joins a line feed (NFC), so the pages of a normalised text are
the normalised pages."""

PACKAGE = "pypdfium2"
_ENCRYPTED, _PROTECTED = 4, 5  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY
_HEAD = 1024  # where readers look for the mark that begins a PDF
_OBJECT = re.compile(rb"\d+\s+\d+\s+obj\b")
_HYPHEN = re.compile("\ufffe(?=(.?))")
"""PDFium's mark for a hyphen at the end of a line, which stands for the line's end, too."""
_UNSEEN = re.compile("[\0-\x08\x0b\x0e-\x1f\x7f\u00ad\ufffe\uffff]")
"""Control characters from fonts without a Unicode table, soft hyphens, and noncharacters."""
_NO_TITLE = re.compile(
    r"microsoft (word|powerpoint|excel) - |untitled\b|(document|presentation|slide|title)\s*\d*$"
    r"|.*\.(docx?|pptx?|xlsx?|odt|rtf|pdf|ps|dvi|tex|indd|pmd|qxd|html?|txt|tiff?|jpe?g)$",
    re.IGNORECASE,
)
"""Titles that programs write themselves: their own words, or the name of a file."""
_LONGEST_TITLE = 300
_BREAKS_OFF = "is damaged: it breaks off before its end; download or copy it again."


@dataclass(frozen=True)
class PdfText:
    """A PDF's normalised text. ``pages`` has the character at which each page starts; ``title`` may be empty."""

    text: str
    pages: tuple[int, ...]
    title: str


def pdf_reader() -> str | None:
    """The name and version of the PDF reader, without importing it; None if it is not installed."""
    return f"{PACKAGE}-{version(PACKAGE)}" if find_spec(PACKAGE) else None


def read_pdf(path: Path) -> PdfText:
    """The text of a PDF. Raises CorpusError if it is damaged or encrypted, or if the package is not installed."""
    content = read_bytes(path, CorpusError)
    try:
        import pypdfium2
    except ImportError:
        raise _fault(path, "needs a package that is not installed: pip install 'ragtrial[pdf]'.") from None
    try:
        opened = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise _fault(path, _why_closed(content, error.err_code)) from None
    with closing(opened):
        if _breaks_off(content):
            raise _fault(path, _BREAKS_OFF)
        pages = []
        for number in range(len(opened)):
            try:
                with closing(opened[number]) as page, closing(page.get_textpage()) as text:
                    pages.append(_page_text(text.get_text_range()))
            except pypdfium2.PdfiumError:
                message = f"is damaged: page {number + 1} of {len(opened)} cannot be read; download or export it again."
                raise _fault(path, message) from None
        try:
            title = _title(opened.get_metadata_value("Title"))
        except UnicodeDecodeError:  # half of a surrogate pair
            title = ""
    starts = accumulate((len(page) + len(PAGE_BREAK) for page in pages[:-1]), initial=0)
    return PdfText(PAGE_BREAK.join(pages), tuple(starts) if pages else (), title)


def page_spans(pages: Sequence[int], length: int) -> Iterator[Span]:
    """Each page of a text of ``length`` characters, without the breaks between them."""
    for position, start in enumerate(pages):
        is_last = position + 1 == len(pages)
        yield Span(start, length if is_last else pages[position + 1] - len(PAGE_BREAK))


def empty_pages(document: Document) -> Iterator[ReportWarning]:
    """A warning if pages of ``document`` have no text."""
    spans = list(page_spans(document.pages, len(document.text)))
    empty = [number for number, span in enumerate(spans, 1) if not document.text[span.start : span.end].strip()]
    if empty:
        numbers = listed(map(str, empty))
        message = (
            f"{document.id}: pages without text: {len(empty):,} of {len(spans):,} ({numbers}); they may be scans: run "
            "OCR on the file."
        )
        yield ReportWarning("empty-pages", message)


def _page_text(text: str) -> str:
    """A page as PDFium gives it, normalised: halves of a hyphenated word joined, white space at its ends dropped."""
    whole = _HYPHEN.sub(lambda mark: "" if mark[1].islower() else "-", text)
    return normalised(_UNSEEN.sub("", whole)).strip()


def _title(written: str) -> str:
    title = " ".join(_UNSEEN.sub("", normalised(written)).split())
    is_text = "\ufffd" not in title and any(map(str.isalpha, title))
    return title if is_text and len(title) <= _LONGEST_TITLE and not _NO_TITLE.match(title) else ""


def _why_closed(content: bytes, code: int | None) -> str:
    if code in (_ENCRYPTED, _PROTECTED):
        return "is encrypted; save a copy without a password."
    if b"%PDF-" not in content[:_HEAD]:
        return "is no PDF: it does not begin with %PDF-; give it the name that fits what it is."
    return _BREAKS_OFF if _breaks_off(content) else "is damaged: it cannot be opened; download or export it again."


def _breaks_off(content: bytes) -> bool:
    """True if an object begins after the last end mark, which PDFium ignores."""
    return _OBJECT.search(content, max(content.rfind(b"startxref"), 0)) is not None


def _fault(path: Path, message: str) -> CorpusError:
    return CorpusError(Fault(str(path), message=message))
