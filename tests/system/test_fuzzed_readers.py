"""Whatever is handed in, every reader gives a value or a named error, and does so in time.

Files as they should be are damaged at random. `make fuzz` does that for ten minutes, with other damage each time;
here each reader gets the same 60 damaged files each time. What ever failed is kept in tests/fuzz, by reader.
"""

import os
import random
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from ragtrial.errors import RagtrialError
from readers import READERS, Reader

pytestmark = pytest.mark.slow

KEPT = Path(__file__).parents[1] / "fuzz"
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0")) / len(READERS)
ROUNDS = 2
"""At least so many times 30 examples, then until the seconds are over."""

MOST_SECONDS = 5.0
"""Of processor time: for the few kilobytes that are read here."""

PIECES = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\t", b" ", b'"', b"'", b"\\"),
    *(b"{", b"}", b"[", b"]", b",", b":", b"-", b"- ", b"#", b"&a ", b"*a", b"<<: ", b"!!python/object:x ", b"%"),
    *(b"<!--", b"]]>", b"&#x0;", b"null", b"true", b"NaN", b"Infinity", b"-1", b"0", b"0.5", b"1e400", b"9" * 30),
    *(b"9" * 5000, b"a" * 3000, b"[" * 3000, b'{"a":' * 1500, b"../../x", b"${X}", b"/dev/null", b"file:///"),
    b"<", b">", *(text.encode() for text in ("\u0301" * 500, "\u202e", "\U0001f600", "\u2028")),
]  # fmt: skip

Damage = tuple[str, float, float, bytes]
"""What is done, where, how far it reaches (both as shares of the file), and what is put there."""

damages = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "cut", "repeat", "flip", "move", "end"]),
        st.floats(0, 1),
        st.floats(0, 1).map(lambda share: share**4),
        st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)),
    ),
    min_size=1,
    max_size=6,
)


def damaged(content: bytes, done: list[Damage]) -> bytes:
    for what, where, share, piece in done:
        start = round(where * len(content))
        end = min(len(content), start + max(1, round(share * len(content))))
        before, part, after = content[:start], content[start:end], content[end:]
        if what == "put":
            content = before + piece + content[start:]
        elif what == "cut":
            content = before + after
        elif what == "repeat":
            content = before + part * 3 + after
        elif what == "flip":
            content = before + bytes(byte ^ (piece[0] if piece else 1) for byte in part) + after
        elif what == "move":
            content = part + before + after
        else:
            content = before
    return content[:100_000]


def read(reader: Reader, path: Path, content: bytes) -> None:
    """A value, or an error that is named; anything else, or what takes too long, fails."""
    path.write_bytes(content)
    start = time.process_time()
    said = "a value"
    try:
        reader.read(path)
    except RagtrialError as error:
        said = str(error)
    assert said.strip()
    assert time.process_time() - start < MOST_SECONDS


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_a_value_or_a_named_error_whatever_it_reads(name: str, tmp_path: Path) -> None:
    reader, first = READERS[name], zlib.crc32(name.encode())
    seeds = {file: (tmp_path / file).read_bytes() for file in reader.write(tmp_path)}
    for file, content in seeds.items():
        reader.read(tmp_path / file)
        assert content

    @given(file=st.sampled_from(sorted(seeds)), done=damages)
    @settings(max_examples=30, database=None, derandomize=False, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    def fails_at_nothing(file: str, done: list[Damage]) -> None:
        content = damaged(seeds[file], done)
        try:
            read(reader, tmp_path / file, content)
        except BaseException:
            _keep(name, file, content)
            raise
        finally:
            (tmp_path / file).write_bytes(seeds[file])

    numbers = random.Random(None if "FUZZ_SECONDS" in os.environ else first)
    end = time.monotonic() + SECONDS
    rounds = 0
    while rounds < ROUNDS or time.monotonic() < end:
        seed(numbers.getrandbits(32))(fails_at_nothing)()
        rounds += 1


def _keep(name: str, file: str, content: bytes) -> None:
    """The last that is kept is the smallest; `make fuzz` leaves it for the repository."""
    if "FUZZ_SECONDS" in os.environ:
        folder = KEPT / name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)


def kept() -> list[tuple[str, Path]]:
    return [(name, path) for name in READERS for path in sorted((KEPT / name.replace(" ", "-")).glob("*"))]


@pytest.mark.parametrize(("name", "path"), kept(), ids=lambda value: value.name if isinstance(value, Path) else value)
def test_what_failed_once_fails_no_more(name: str, path: Path, tmp_path: Path) -> None:
    reader = READERS[name]
    reader.write(tmp_path)
    read(reader, tmp_path / path.name.partition("--")[0], path.read_bytes())
