"""Docstrings and comments that read like a translation, found by pattern.

``python tests/support/plain_english.py [FOLDER]`` lists those of a folder of the package.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "ragtrial"

TRANSLATED = {
    r"(?:^|[.:;?!] )(?:Of|Whether|Those|So many)\b[^?]*?(?:[.!]|$)": "begin with the subject",
    r"(?:^|[.:;?!] )What\b[^?]*?(?:[.!:;]|$)": "begin with the subject",
    r"\b(?:of|in|with|from|to|by|than|for|on|about|and|or|but|is|are|as|at|into|after|over) what\b(?! if)": "name it",
    r"\bwhat (?:is|it|was|were|they|has|had|of|came|comes|all|there|the|its|their)\b(?![^.]*\?)": "name it",
    r"\bwhat (?:makes?|made|does|cannot|can|may|must|stands?|follows?|remains?|fits?)\b(?![^.]*\?)": "name it",
    r"\b(?:nobody|somebody|whoever|whatever|whichever)\b": "use a passive, or name the agent",
    r"\bbeside\b": "next to, besides, in addition to",
    r"\b(?:stands?|stood|standing)\b(?! for)": "is, is in",
    r"\b(?:told|tells?|telling)\b": "shows, reports, distinguishes",
    r"\b(?:is|are|was|were|be|been) said\b|\bsaid of\b|\bsays? so\b|\bsay of\b": "is reported, shows",
    r"\bso many\b": "name the number",
    r"(?:, |\band )of (?:these|those|them|which|whom)\b": "put the subject first",
    r"\b(?:that|those) of\b": "repeat the noun",
    r"\bones\b|\bone (?:that|which|who|whose)\b": "repeat the noun",
    r"\b(?:made again|make again|makes again|is made of|are made of)\b": "rebuilt, consists of",
    r"\bin place of\b|\bwithout a word\b|\bhangs? on\b": "instead of, silently, depends on",
    r"\bthe (?:first|last) that\b|\bthose that\b": "repeat the noun",
    r"\bof (?:its|their) own\b": "separate, its own",
}
"""A pattern, and the way out."""


def sentences(file: Path) -> Iterator[tuple[int, str]]:
    """The line and text of each docstring, and of each block of comments."""
    code = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    first, last, block = 0, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        text = token.string.removeprefix("#").strip()
        if token.type != tokenize.COMMENT or re.match(r"noqa|type:|fmt:|pragma|!", text):
            continue
        if block and token.start[0] == last + 1 and token.line.lstrip().startswith("#"):
            block = f"{block} {text}"
        else:
            if block:
                yield first, block
            first, block = token.start[0], text
        last = token.start[0]
    if block:
        yield first, block


def translated(text: str) -> list[str]:
    """The ways out for the patterns that ``text`` matches."""
    plain = re.sub(r"``[^`]*``", "X", text)
    return [
        better
        for pattern, better in TRANSLATED.items()
        if re.search(pattern, plain) or re.search(pattern, plain.lower())
    ]


def main() -> None:
    folder = SOURCE / (sys.argv[1] if len(sys.argv) > 1 else "")
    count = matched = 0
    for file in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        for line, text in sentences(file):
            count += 1
            if better := translated(text):
                matched += 1
                print(f"{file.relative_to(SOURCE)}:{line}: {text}\n    {'; '.join(dict.fromkeys(better))}")
    print(f"{matched} of {count} ({matched / max(count, 1):.1%})")


if __name__ == "__main__":
    main()
