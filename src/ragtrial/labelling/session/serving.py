"""The server of the labelling page, for one browser on this machine alone."""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from ragtrial.cache.untrusted import load_json
from ragtrial.errors import Fault, InputError, RagtrialError, counted
from ragtrial.labelling.edits import group_like
from ragtrial.labelling.session.session import Session, ending_lines, overtaken_lines

logger = logging.getLogger(__name__)

T = TypeVar("T")

HOME = "127.0.0.1"
MOST_BYTES = 64 * 1024
"""The longest request; a passage is sent as two numbers."""
_USUAL_PORT = 80
_DRAINED = 4 * 1024 * 1024

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    kind: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    asset: Asset
    is_last: bool = False


class _RefusedError(Exception):
    """A request that is not answered as it was asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = _json(status, {"error": message})


class LabelPage(ThreadingHTTPServer):
    """``session`` as a page at ``url``, which holds a secret; requests without it are refused.

    ``assets`` are the files of the page by name, the page itself under "". Requests that another page or another
    machine could cause are always refused. ``port`` None takes any free port. Raises InputError if the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere it would share a port that is in use

    def __init__(self, session: Session, assets: Mapping[str, Asset], port: int | None = None) -> None:
        self.session = session
        self._assets = assets
        self._token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self._is_over = False
        try:
            super().__init__((HOME, port or 0), _Handler)
        except OSError as error:
            message = f"port {port} cannot be had: {error.strerror or error}; name another one, or none for a free one."
            raise InputError(Fault("--port", message=message)) from error
        self.port: int = self.server_address[1]
        self.url = f"http://{HOME}:{self.port}/{self._token}/"

    def serve(self) -> None:
        """Answer the browser until the session is finished there; an exception ends it, too."""
        try:
            self.serve_forever(poll_interval=0.1)
        finally:
            with self._lock:
                self._is_over = True
            self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("a request was cut off", exc_info=True)

    def reply(self, request: _Handler) -> _Reply:
        """The reply to a request. Raises _RefusedError."""
        self._refuse_strangers(request)
        name = request.path.partition("?")[0].removeprefix(f"/{self._token}/")
        is_read = name in self._assets or name == "state"
        if not is_read and name not in _ACTIONS:
            raise _RefusedError(404, "there is nothing of that name here.")
        method = "GET" if is_read else "POST"
        if request.command != method:
            raise _RefusedError(405, f"{request.command} is not for this; {method} is.")
        if name in self._assets:
            return _Reply(200, self._assets[name])
        if is_read:
            with self._open_session():
                return _json(200, {"state": self._shown()})
        if request.headers.get_content_type() != "application/json":
            raise _RefusedError(415, "what is sent must be application/json.")
        return self._acted(name, request.body())

    def _refuse_strangers(self, request: _Handler) -> None:
        """Refuse a request that is not for this page."""
        ports = (f":{self.port}", "") if self.port == _USUAL_PORT else (f":{self.port}",)
        hosts = {f"{name}{port}" for name in (HOME, "localhost") for port in ports}
        if request.headers.get_all("Host") is None or not {*request.headers.get_all("Host", [])} <= hosts:
            raise _RefusedError(403, "this page is not there under that name.")
        origins = request.headers.get_all("Origin", [])
        if any(origin not in {f"http://{host}" for host in hosts} for origin in origins):
            raise _RefusedError(403, "other pages may not ask this one.")
        token = request.path.partition("?")[0].removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            message = "the address is not whole, or of a page that has ended; take the one that was printed."
            raise _RefusedError(403, message)

    @contextmanager
    def _open_session(self) -> Iterator[None]:
        with self._lock:
            if self._is_over:
                raise _RefusedError(410, "this page has ended; the same command goes on.")
            yield

    def _acted(self, name: str, body: Mapping[str, Any]) -> _Reply:
        with self._open_session():
            if body.get("revision") != self.session.answers.revision:
                message = (
                    "This worklist was answered elsewhere meanwhile, in another tab perhaps. Nothing was changed; this "
                    "is how it stands now."
                )
                return _json(409, {"error": message, "state": self._shown()})
            try:
                lines = _ACTIONS[name](self.session, body)
            except (KeyError, TypeError) as error:
                raise _RefusedError(400, f"what is sent for {name} is not whole: {error}.") from None
            except RagtrialError as error:
                return _json(422, {"error": str(error), "state": self._shown()})
            shown = {"state": self._shown(), "lines": lines if isinstance(lines, list) else []}
            return _json(200, shown, is_last=name == "finish")

    def _shown(self) -> dict[str, Any]:
        session, answers, item = self.session, self.session.answers, self.session.item
        quote, at = session.passage
        shown = {key: getattr(item, key) for key in ("title", "doc", "text")} if item else {}
        return {
            "revision": answers.revision,
            "total": answers.total,
            "graded": len(answers.given),
            "skipped": len(answers.skipped),
            "unsaved": len(answers.unsaved),
            "can_undo": answers.can_undo,
            "can_quote": session.can_quote,
            "highest": session.highest,
            "who": session.who,
            "labels": session.file.name,
            "passage": quote and {"text": quote, "at": at},
            "groups": [
                {"name": name, "lines": places if name in map(group_like, places) else [name, *places]}
                for name, places in session.groups.items()
            ],
            "group": answers.pending.group,
            "is_review": session.worklist.is_drafted,
            "item": {**shown, "question": session.question} if item else None,
        }


def _quote(session: Session, body: Mapping[str, Any]) -> None:
    start, end = _sent(body, "start", int), _sent(body, "end", int)
    text = session.item.text if session.item else ""
    session.quote(text[max(0, start) : max(0, end)], start)


def _save(session: Session, _body: Mapping[str, Any]) -> Sequence[str]:
    before, count = session.overtaken, len(session.answers.unsaved)
    session.save()
    overtaken = overtaken_lines(len(session.overtaken - before))
    return [f"{counted(count, 'answer')} saved.", *(f"{line}." for line in overtaken)]


def _finish(session: Session, _body: Mapping[str, Any]) -> Sequence[str]:
    session.save()
    return ending_lines(session)


_ACTIONS: Mapping[str, Callable[[Session, Mapping[str, Any]], Sequence[str] | bool | None]] = {
    "grade": lambda session, body: session.grade(_sent(body, "grade", int)),
    "keep": lambda session, _: session.keep(),
    "drop": lambda session, _: session.drop(),
    "rephrase": lambda session, body: session.rephrase(_sent(body, "question", str)),
    "skip": lambda session, _: session.skip(),
    "undo": lambda session, _: session.undo(),
    "quote": _quote,
    "group": lambda session, body: session.choose_group(_sent(body, "group", str) or None),
    "save": _save,
    "finish": _finish,
}
"""The actions of the page; those that save return lines to show."""


def _sent(body: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """A value of a request. Raises KeyError or TypeError for others."""
    value = body[key]
    if type(value) is not kind:
        raise TypeError(f"{key} must be {'a whole number' if kind is int else 'a text'}")
    return value


def _json(status: int, value: Mapping[str, Any], *, is_last: bool = False) -> _Reply:
    return _Reply(status, Asset("application/json", json.dumps(value).encode()), is_last)


class _Handler(BaseHTTPRequestHandler):
    server: LabelPage
    server_version = "ragtrial"
    sys_version = ""
    timeout = 30

    def body(self) -> Mapping[str, Any]:
        """The object in the request. Raises _RefusedError."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise _RefusedError(411, "the length of what is sent must be known.")
        if int(length) > MOST_BYTES:
            self.rfile.read(min(int(length), _DRAINED))  # a browser reads the answer after it has sent everything
            raise _RefusedError(413, f"at most {MOST_BYTES:,} bytes may be sent.")
        with suppress(ValueError):
            value = load_json(self.rfile.read(int(length)))
            if isinstance(value, dict):
                return value
        raise _RefusedError(400, "what is sent must be a JSON object.")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._send(_RefusedError(code, message or explain or "that is no request.").reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gives it
        """The path has the secret in it: nothing is logged."""

    def _answer(self) -> None:
        try:
            reply = self.server.reply(self)
        except _RefusedError as refusal:
            reply = refusal.reply
        self._send(reply)
        if reply.is_last and reply.status == 200:
            self.wfile.flush()
            self.server.shutdown()

    def _send(self, reply: _Reply) -> None:
        self.send_response(reply.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", reply.asset.kind)
        self.send_header("Content-Length", str(len(reply.asset.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.asset.content)

    do_GET = do_POST = do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815
