"""The page's server: it answers the browser that has the whole address, on this machine, and refuses all else."""

import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragtrial.errors import InputError
from ragtrial.labelling.session.serving import MOST_BYTES, LabelPage
from ragtrial.labelling.session.session import Session
from ragtrial.views.label_page import assets
from worklists import item, judgments, served, write_work


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[LabelPage]:
    """Six whole documents to grade, served."""
    with served(write_work(tmp_path)) as page:
        yield page


def ask(page: LabelPage, name: str, method: str = "GET", body: object = None, **headers: str) -> Answer:
    """Ask for ``name`` under the secret address, or for a path as it is if it begins with a slash."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    path = name if name.startswith("/") else page.url.partition(str(page.port))[2] + name
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    sent |= {key.replace("_", "-"): value for key, value in headers.items()}
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, content, sent)
        reply = connection.getresponse()
        return Answer(reply.status, dict(reply.headers), reply.read())
    finally:
        connection.close()


def ask_until_gone(page: LabelPage) -> None:
    for _ in range(1000):
        ask(page, "state")


def test_it_gives_the_page_and_of_two_tabs_the_later_is_told(page: LabelPage) -> None:
    assert ask(page, "").body.startswith(b"<!doctype html>")
    assert ask(page, "label.js").headers["Content-Type"] == "text/javascript; charset=utf-8"
    state = ask(page, "state").json["state"]
    assert (state["total"], state["graded"], state["highest"], state["labels"]) == (6, 0, 3, "prompt_queries.json")
    assert state["item"] == {
        "question": "thirty days to return an item", "title": "Returns", "doc": "returns.md",
        "text": "# Returns\n\nReturn any item within thirty days.\n",
    }  # fmt: skip
    first = ask(page, "grade", "POST", {"revision": 0, "grade": 3}).json["state"]
    second = ask(page, "grade", "POST", {"revision": 0, "grade": 0})
    assert second.status == 409
    assert second.json["error"].startswith("This worklist was answered elsewhere meanwhile, in another tab perhaps.")
    assert second.json["state"] == first
    assert page.session.answers.given[0].grade == 3
    assert ask(page, "undo", "POST", {"revision": first["revision"]}).json["state"]["graded"] == 0


def test_a_group_is_shown_by_its_name_unless_that_repeats_its_first_place(tmp_path: Path) -> None:
    worklist = write_work(tmp_path, [item("Parcels take two days")])
    labels = json.loads((tmp_path / "prompt_queries.json").read_text())
    labels["queries"][0]["relevant_docs"].append({"doc": "warranty.md", "group": "long"})
    (tmp_path / "prompt_queries.json").write_text(json.dumps(labels))
    with served(worklist) as page:
        assert ask(page, "state").json["state"]["groups"] == [
            {"name": "same as returns.md", "lines": ["returns.md"]},
            {"name": "long", "lines": ["long", "warranty.md"]},
        ]


@pytest.mark.parametrize("name", ["", "state", "label.css", "nowhere"])
def test_nothing_is_kept_framed_sniffed_or_told_to_others(page: LabelPage, name: str) -> None:
    headers = ask(page, name).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert headers["Server"] == "ragtrial "
    assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    "path", ["/", "/state", "/wrong/", "/wrong/state", "//", "/%2e%2e/", "/é".encode().decode("latin-1") + "/state"]
)
def test_without_the_secret_there_is_nothing(page: LabelPage, path: str) -> None:
    connection = socket.create_connection(("127.0.0.1", page.port), timeout=30)
    with connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode("latin-1"))
        assert connection.recv(4096).split()[1] == b"403"
    secret = page.url.split("/")[3]
    assert len(secret) >= 32
    assert [ask(page, f"/{wrong}/state").status for wrong in (secret[:-1], f"{secret}x")] == [403, 403]
    assert page.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_a_name_that_somebody_pointed_here_is_refused(page: LabelPage, host: str) -> None:
    found = ask(page, "state", Host=host.format(port=page.port))
    assert (found.status, found.json) == (403, {"error": "this page is not there under that name."})
    assert ask(page, "state", Host=f"localhost:{page.port}").status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_other_pages_may_not_ask(page: LabelPage, origin: str) -> None:
    sent = {"revision": 0, "grade": 3}
    found = ask(page, "grade", "POST", sent, Origin=origin.format(port=page.port))
    assert (found.status, found.json) == (403, {"error": "other pages may not ask this one."})
    assert page.session.answers.given == {}
    assert ask(page, "grade", "POST", sent, Origin=f"http://127.0.0.1:{page.port}").status == 200


@pytest.mark.parametrize(
    "name", ["../label.html", "..%2f..%2fetc/passwd", "assets/label.js", "/etc/passwd", "label.js/"]
)
def test_a_path_leads_nowhere_else(page: LabelPage, name: str) -> None:
    found = ask(page, page.url.partition(str(page.port))[2] + name)
    assert (found.status, found.json) == (404, {"error": "there is nothing of that name here."})


@pytest.mark.parametrize(("name", "method", "status"), [
    ("", "POST", 405), ("state", "DELETE", 405), ("grade", "GET", 405), ("grade", "PUT", 405),
    ("grade", "OPTIONS", 405), ("label.js", "PATCH", 405), ("state", "BREW", 501),
])  # fmt: skip
def test_what_is_asked_in_another_way_is_refused(page: LabelPage, name: str, method: str, status: int) -> None:
    assert ask(page, name, method).status == status


@pytest.mark.parametrize(("body", "headers", "status", "told"), [
    (b"x" * (MOST_BYTES + 1), {}, 413, f"at most {MOST_BYTES:,} bytes may be sent."),
    (b"{", {}, 400, "what is sent must be a JSON object."),
    (b"\xff", {}, 400, "what is sent must be a JSON object."),
    (b"[0]", {}, 400, "what is sent must be a JSON object."),
    (b"[" * 50_000, {}, 400, "what is sent must be a JSON object."),
    (b"{}", {"Content_Type": "text/plain"}, 415, "what is sent must be application/json."),
    (b"{}", {"Content_Length": "-1"}, 411, "the length of what is sent must be known."),
    ({"revision": 0}, {}, 400, "what is sent for grade is not whole: 'grade'."),
    ({"revision": 0, "grade": True}, {}, 400, "what is sent for grade is not whole: grade must be a whole number."),
    ({"revision": 0, "grade": 4}, {}, 422, "the grade 4 is not among 0 to 3; --highest 4 would allow it."),
])  # fmt: skip
def test_what_is_not_an_answer_is_refused_and_changes_nothing(
    page: LabelPage, body: object, headers: dict[str, str], status: int, told: str
) -> None:
    found = ask(page, "grade", "POST", body, **headers)
    assert (found.status, found.json["error"]) == (status, told)
    assert page.session.answers.revision == 0


def test_answers_come_into_the_labels_and_the_end_says_how_it_went(page: LabelPage, tmp_path: Path) -> None:
    state = ask(page, "skip", "POST", {"revision": 0}).json["state"]
    state = ask(page, "quote", "POST", {"revision": state["revision"], "start": 12, "end": 21}).json["state"]
    assert state["passage"] == {"text": "Batteries", "at": 12}
    state = ask(page, "undo", "POST", {"revision": state["revision"]}).json["state"]
    state = ask(page, "grade", "POST", {"revision": state["revision"], "grade": 2}).json["state"]
    saved = ask(page, "save", "POST", {"revision": state["revision"]}).json
    assert saved["lines"] == ["1 answer saved."]
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 2}
    ended = ask(page, "finish", "POST", {"revision": saved["state"]["revision"]}).json
    assert ended["lines"] == [
        "1 of 6 graded, 1 left out, 4 to go: the same command goes on",
        f"{tmp_path / 'prompt_queries.json'}: 1 judgment written",
        f"next: ragtrial rescore latest --labels {tmp_path / 'prompt_queries.json'} "
        f"--config {tmp_path / 'experiment.yaml'}",
    ]
    with pytest.raises(OSError):  # noqa: PT011 - it listens no longer, or has gone: the system's words
        ask_until_gone(page)


def test_what_comes_after_the_end_is_told_so_and_changes_nothing(page: LabelPage) -> None:
    body = json.dumps({"revision": 0, "grade": 2}).encode()
    address = page.url.partition(str(page.port))[2]
    with socket.create_connection(("127.0.0.1", page.port), timeout=30) as late:
        late.sendall(
            f"POST {address}grade HTTP/1.0\r\nHost: 127.0.0.1:{page.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
        )
        assert ask(page, "finish", "POST", {"revision": 0}).status == 200
        with pytest.raises(OSError):  # noqa: PT011 - it listens no longer, or has gone: the system's words
            ask_until_gone(page)
        late.sendall(body)
        answer = late.makefile("rb").read()
    assert answer.split()[1] == b"410"
    assert answer.endswith(b'{"error": "this page has ended; the same command goes on."}')
    assert not page.session.answers.given


def test_a_port_in_use_is_named_and_without_one_a_free_one_is_taken(page: LabelPage, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Session(write_work(tmp_path / "other")) as session:
        with pytest.raises(InputError, match=f"^--port: port {page.port} cannot be had: Address already in use; name"):
            LabelPage(session, assets(), page.port)
        other = LabelPage(session, assets())
        other.server_close()
        assert other.port != page.port
