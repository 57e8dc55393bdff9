"""A server on the loopback that misbehaves in many ways, and what each service of an endpoint should answer."""

import gzip
import json
import socketserver
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from local_servers import serving

KEY = "sk-never/written+anywhere-0123456789"
TEXTS = ["blue whales", "ships", "a blue boat on the sea"]
SERVICES = ("embeddings", "rerank", "chat")

VECTORS = [[1.0, 0.5, -0.25], [0.5, 2.0, 1.0], [0.0, 1.0, 1.0]]
SCORES = [0.5, 0.25, 1.5]
REPLY = "Grade: 2"

Bytes = Iterator[bytes]
Mode = Callable[[str], Bytes]
"""Given the name of a service: the bytes that are sent until the connection is closed."""


def right(service: str) -> dict[str, Any]:
    """The sound answer to TEXTS, with the key in it."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    common = {"model": f"Bearer {KEY}", "usage": usage}
    if service == "embeddings":
        return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(VECTORS)], **common}
    if service == "rerank":
        return {"results": [{"index": i, "relevance_score": score} for i, score in enumerate(SCORES)], **common}
    return {"choices": [{"message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}], **common}


def http(body: bytes, status: str = "200 OK", *headers: str, length: int | str | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def sent(*parts: bytes) -> Mode:
    return lambda _: iter(parts)


def answered(change: Callable[[dict[str, Any]], Any]) -> Mode:
    """The sound answer, changed, as JSON."""
    return lambda service: iter([http(json.dumps(change(right(service))).encode())])


def written(change: Callable[[str], str | bytes]) -> Mode:
    """The text of the sound answer, changed."""

    def mode(service: str) -> Bytes:
        text = change(json.dumps(right(service)))
        yield http(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))

    return mode


def status(code: str, *headers: str) -> Mode:
    return sent(http(json.dumps({"error": {"message": f"no: {KEY}"}}).encode(), code, *headers))


def error_in_body(error: Any) -> Mode:
    return answered(lambda answer: {**answer, "error": error})


def forever(first: bytes, then: bytes, pause: float = 0.0) -> Mode:
    def mode(_: str) -> Bytes:
        yield first
        while True:
            yield then
            time.sleep(pause)

    return mode


def encoded(name: str, encode: Callable[[bytes], bytes]) -> Mode:
    return lambda service: iter(
        [http(encode(json.dumps(right(service)).encode()), "200 OK", f"Content-Encoding: {name}")]
    )


def padded(first: bytes, padding: bytes, last: bytes) -> Mode:
    """The sound answer with 300 MB before it."""

    def mode(service: str) -> Bytes:
        end = last + json.dumps(right(service))[1:].encode()
        yield http(first, length=len(first) + 3000 * len(padding) + len(end))
        yield from (padding for _ in range(3000))
        yield end

    return mode


@cache
def bomb(times: int = 1) -> bytes:
    """2 GB of zeros in gzip of gzip, 100 MB in gzip."""
    packer = zlib.compressobj(9, wbits=31)
    body = b"".join([*(packer.compress(MEGABYTE) for _ in range(100)), packer.flush()])
    return body if times == 1 else gzip.compress(body * 20)


MEGABYTE = b" " * 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = HEAD + b"Content-Length: 99999999999\r\n\r\n"

TRANSPORT: dict[str, Mode] = {
    "endless body": forever(LONG, MEGABYTE),
    "endless chunks": forever(CHUNKED, b"f4240\r\n" + MEGABYTE + b"\r\n"),
    "endless error": forever(b"HTTP/1.1 400 No\r\nContent-Length: 99999999999\r\n\r\n", MEGABYTE),
    "endless 100": forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless headers": forever(HEAD, b"x-more: yes\r\n"),
    "endless header": forever(HEAD + b"x-more: ", b"x" * 1000),
    "dripping body": forever(LONG, b" ", 0.1),
    "silence after headers": forever(LONG, b"", 0.1),
    "hangs up": sent(),
    "half a body": lambda service: iter([http(json.dumps(right(service)).encode()[:40], length=500)]),
    "chunk of no size": sent(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"),
    "huge header": sent(HEAD + b"x-more: " + b"x" * 300_000 + b"\r\n\r\n{}"),
    "no HTTP": sent(b"220 smtp.example ESMTP\r\n"),
}  # fmt: skip
"""Ways to spoil the exchange of bytes."""

ENCODINGS: dict[str, Mode] = {
    "gzip bomb": lambda _: iter([http(bomb(), "200 OK", "Content-Encoding: gzip")]),
    "gzip of gzip": lambda _: iter([http(bomb(2), "200 OK", "Content-Encoding: gzip, gzip")]),
    "half of gzip": encoded("gzip", lambda body: gzip.compress(body)[:-12]),
    "gzip that is none": encoded("gzip", lambda body: body),
    "br": encoded("br", lambda body: body),
    "zstd bomb": sent(http(b"\x28\xb5\x2f\xfd\xa4\x00\x00\x00\x80" + bytes(100), "200 OK", "Content-Encoding: zstd")),
}  # fmt: skip

STATUSES: dict[str, Mode] = {
    code: status(code, *headers)
    for code, *headers in [
        ("204 No Content",), ("206 Partial Content",), ("301 Moved", "Location: http://127.0.0.1:9/"), ("400 Bad",),
        ("401 No",), ("402 Pay",), ("413 Large",), ("500 No",), ("999 What",), ("429 Later", "Retry-After: 99999"),
        ("429 Nan", "Retry-After: nan"), ("429 Past", "Retry-After: -5"), ("429 Infinite", "Retry-After: 1e999"),
        ("429 Year", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"),
    ]
}  # fmt: skip

ERRORS: dict[str, Mode] = {
    "error of a code": error_in_body({"message": f"slow, {KEY}", "code": 429}),
    "error of a kind": error_in_body({"message": "slow", "type": "rate_limit_error"}),
    "error that is a text": error_in_body(f"no key {KEY}"),
    "error that is a list": error_in_body(["no", {"deep": [KEY]}]),
    "error of an endless code": error_in_body({"code": 10**300}),
    "message alone": answered(lambda _: {"message": f"no {KEY}"}),
}


def _usage(value: str) -> Mode:
    return written(lambda text: text.replace(": 10}", f": {value}}}").replace(": 7,", f": {value},"))


JSON: dict[str, Mode] = {
    "nothing": sent(http(b"")),
    "HTML": sent(http(b"<html>Bad gateway</html>")),
    "a text": sent(http(b'"no"')), "an empty list": sent(http(b"[]")), "an empty object": sent(http(b"{}")),
    "open lists": sent(http(b"[" * 100_000)),
    "deep lists": sent(http(b"[" * 50_000 + b"]" * 50_000)),
    "deep within bounds of the parser": written(lambda text: text[:-1] + ', "a": ' + "[" * 300 + "]" * 300 + "}"),
    "a million lists": sent(http(b"[" + b"[]," * 1_000_000 + b"[]]")),
    "tokens of 400 digits": _usage("1" * 400), "tokens of 10,000 digits": _usage("1" * 10_000),
    "tokens without end": _usage("1e999"), "tokens that are no number": _usage("NaN"),
    "two values": written(lambda text: text + text),
    "events": written(lambda text: f"data: {text}\n\ndata: [DONE]\n\n"),
    "half": written(lambda text: text[: len(text) // 2]),
    "bad UTF-8": written(lambda text: text.replace("Bearer", "\x00\x00").encode().replace(b"u0000", b"\xff\xfe")),
    "NUL bytes": written(lambda text: text.encode() + bytes(10)),
    "padding": padded(b'{"padding": "', b"x" * 100_000, b'", '),
}  # fmt: skip
"""Ways to answer something else than a JSON object of the right size."""


SOUND: dict[str, Mode] = {
    "as it should be": answered(lambda answer: answer),
    "gzip": encoded("gzip", gzip.compress),
    "identity": encoded("identity", lambda body: body),
    "UTF-8 with a mark": written(lambda text: b"\xef\xbb\xbf" + text.encode()),
    "UTF-16": written(lambda text: text.encode("utf-16")),
    "one byte a chunk": lambda service: iter(
        [CHUNKED, *(b"1\r\n%c\r\n" % byte for byte in json.dumps(right(service)).encode()), b"0\r\n\r\n"]
    ),
    "no error": error_in_body(None),
    "half an emoji in a name": written(lambda text: text[:-1] + ', "\\udc00": 1}'),
    "tokens below zero": _usage("-5"),
    "tokens in words": _usage('"many"'),
    "no usage": answered(lambda answer: {**answer, "usage": None}),
    "a megabyte beside": answered(lambda answer: {"padding": "x" * 1_000_000, **answer}),
}  # fmt: skip
"""Odd answers that are sound in all that counts."""


def _rows(change: Callable[[list[Any]], Any]) -> Mode:
    def changed(answer: dict[str, Any]) -> dict[str, Any]:
        name = next(name for name in ("data", "results", "choices") if name in answer)
        return {**answer, name: change(answer[name])}

    return answered(changed)


def _first(**members: Any) -> Mode:
    """Members of the first row, changed."""
    return _rows(lambda rows: [{**rows[0], **members}, *rows[1:]])


def _first_text(name: str, text: str) -> Mode:
    """The same with JSON that Python would not write."""

    def change(service: str) -> Bytes:
        rows = right(service)
        rows["data" if service == "embeddings" else "results"][0][name] = "@"
        yield http(json.dumps(rows).replace('"@"', text).encode())

    return change


ROWS: dict[str, Mode] = {
    "no rows": answered(lambda answer: {"usage": answer["usage"]}),
    "rows null": _rows(lambda _: None), "rows a text": _rows(lambda _: KEY), "rows an object": _rows(lambda _: {}),
    "one row less": _rows(lambda rows: rows[:-1]), "one row more": _rows(lambda rows: [*rows, rows[0]]),
    "rows of rows": _rows(lambda rows: [rows]), "rows of texts": _rows(lambda _: ["a", "b", KEY]),
    "rows null each": _rows(lambda _: [None] * 3), "an index twice": _first(index=1),
    "an index below": _first(index=-1),
    "an index beyond": _first(index=3), "an index true": _first(index=True), "an index in words": _first(index=KEY),
    "an index of a fraction": _first(index=0.5), "an index that is huge": _first(index=10**400),
}  # fmt: skip

OWN: dict[str, dict[str, Mode]] = {
    "embeddings": ROWS | {
        "vectors of true": _first(embedding=[True, False, True]), "one true": _first(embedding=[1.0, True, 1.0]),
        "vectors of texts": _first(embedding=["0.1", "0.2", "0.3"]), "one text": _first(embedding=[1.0, "2", 1.0]),
        "a null": _first(embedding=[1.0, None, 1.0]), "no vector": _first(embedding=None),
        "an empty vector": _first(embedding=[]), "a shorter vector": _first(embedding=[1.0]),
        "a vector of vectors": _first(embedding=[[1.0, 2.0, 3.0]]), "an object": _first(embedding={"a": 1}),
        "a number": _first(embedding=3), "no base64": _first(embedding="!!!"),
        "half of base64": _first(embedding="AAA="),
        "NaN": _first_text("embedding", "[1, NaN, 1]"), "infinity": _first_text("embedding", "[1, Infinity, 1]"),
        "1e999": _first_text("embedding", "[1, 1e999, 1]"), "1e308": _first(embedding=[1.0, 1e308, 1.0]),
        "400 digits": _first_text("embedding", f"[1, {'1' * 400}, 1]"),
    },
    "rerank": ROWS | {
        "a score true": _first(relevance_score=True), "a score in words": _first(relevance_score="0.5"),
        "a score null": _first(relevance_score=None), "a score a list": _first(relevance_score=[0.5]),
        "a score an object": _first(relevance_score={"score": 1}), "NaN": _first_text("relevance_score", "NaN"),
        "infinity": _first_text("relevance_score", "-Infinity"), "1e999": _first_text("relevance_score", "1e999"),
        "1e39": _first(relevance_score=1e39), "400 digits": _first_text("relevance_score", "1" * 400),
    },
    "chat": {
        "no choices": answered(lambda answer: {"usage": answer["usage"]}), "choices null": _rows(lambda _: None),
        "choices empty": _rows(lambda _: []), "a choice a text": _rows(lambda _: [KEY]),
        "a choice null": _rows(lambda _: [None]), "no message": _rows(lambda _: [{"finish_reason": "stop"}]),
        "a message a text": _first(message=KEY), "a message null": _first(message=None),
        "a message a list": _first(message=[KEY]), "content a number": _first(message={"content": 5}),
        "content true": _first(message={"content": True}), "content an object": _first(message={"content": {"a": KEY}}),
        "an error of the choice": _first(error={"code": 502, "message": KEY}),
    },
}  # fmt: skip
"""Ways to answer wrong contents, by service."""


def wrong_modes(service: str) -> dict[str, Mode]:
    """All by name that no answer can be had from."""
    return TRANSPORT | ENCODINGS | STATUSES | ERRORS | JSON | OWN[service]


class _Handler(socketserver.StreamRequestHandler):
    modes: list[Mode]

    def handle(self) -> None:
        with suppress(OSError):
            length, path = 0, ""
            while (line := self.rfile.readline().decode().strip()) or not path:
                path = path or line.split(" ")[1]
                name, _, value = line.partition(":")
                length = int(value) if name.lower() == "content-length" else length
            self.rfile.read(length)
            _, number, service, *_ = path.split("/")
            self.connection.settimeout(30)
            for part in self.modes[int(number)](service):
                self.connection.sendall(part)


@contextmanager
def misbehaving(modes: list[Mode]) -> Iterator[Callable[[int, str], str]]:
    """The base URL for the number of a mode and a service."""
    with serving(type("Handler", (_Handler,), {"modes": modes})) as address:
        yield lambda number, service: f"{address}/{number}/{service}"
