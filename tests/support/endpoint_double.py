"""An endpoint on the loopback that answers in OpenAI's, Cohere's and Voyage's forms, or goes wrong as it is ordered.

Vectors come from a hash of the text, scores and replies from the texts: what is answered can be checked from outside.
"""

import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Self

import numpy as np

from local_servers import Handler, serving
from ragtrial.rankings import Floats

Fault = Callable[["_Handler", Any], Any]
"""Given the handler and the right answer: another answer, or None if it has answered otherwise."""


def vector_of(text: str, dimension: int = 16) -> Floats:
    """The vector of a text, of length 1.5."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    made = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return np.asarray(1.5 * made / np.linalg.norm(made), dtype=np.float32)


def score_of(question: str, text: str) -> float:
    """How many words of the question are in the text, and a little less for a longer text."""
    words = set(question.lower().split())
    return sum(word in words for word in text.lower().split()) - len(text) / 1e6


def tokens_of(texts: Sequence[str]) -> int:
    """What is billed for texts."""
    return sum(len(text.split()) for text in texts)


@dataclass
class Asked:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        found = self.body.get("input") or self.body.get("texts") or self.body.get("documents") or []
        return [found] if isinstance(found, str) else list(found)


@dataclass
class EndpointDouble:
    """Listens while it is entered; ``faults`` are what befalls the first requests, None for none, ``default`` the rest.

    ``answered`` counts the texts of embedding requests that were answered whole: what a provider bills.
    """

    faults: list[Fault | None] = field(default_factory=list)
    default: Fault | None = None
    dimension: int = 16
    latency: float = 0.0
    hold: Event | None = None
    asked: list[Asked] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.lock = Lock()

    def __enter__(self) -> Self:
        self._serving = serving(type("Handler", (_Handler,), {"double": self}))
        self.url = f"{self._serving.__enter__()}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)


class _Handler(Handler):
    double: EndpointDouble
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:  # noqa: N802 - the name of http.server
        received = time.monotonic()
        asked = Asked(self.path, dict(self.headers), json.loads(self.body()))
        double = self.double
        with double.lock:
            double.asked.append(asked)
            double.at_once += 1
            double.most_at_once = max(double.most_at_once, double.at_once)
            fault = double.faults.pop(0) if double.faults else double.default
        answer: Any = _answer(asked, double.dimension)
        written = "" if fault is not None else json.dumps(answer)
        time.sleep(max(0.0, received + double.latency - time.monotonic()))
        if double.hold is not None:
            double.hold.wait(30)
        if fault is not None:
            answer = fault(self, answer)
        with double.lock:
            double.at_once -= 1
            if answer is not None:
                double.answered.update(asked.texts)
        if answer is not None:
            self.reply(200, written or json.dumps(answer))


def _answer(asked: Asked, dimension: int) -> Any:
    body, texts = asked.body, asked.texts
    usage = {"prompt_tokens": tokens_of(texts), "total_tokens": tokens_of(texts)}
    size = body.get("dimensions") or body.get("output_dimension") or dimension
    if asked.path.endswith("/embeddings"):
        as_text = body.get("encoding_format") == "base64"
        rows = []
        for index, text in enumerate(texts):
            vector = vector_of(text, size)
            shown = base64.b64encode(vector.tobytes()).decode() if as_text else vector.tolist()
            rows.append({"object": "embedding", "index": index, "embedding": shown})
        return {"object": "list", "data": rows, "model": body["model"], "usage": usage}
    if asked.path.endswith("/embed"):
        vectors = [vector_of(text, size).tolist() for text in texts]
        return {"embeddings": {"float": vectors}, "meta": {"billed_units": {"input_tokens": tokens_of(texts)}}}
    if asked.path.endswith("/rerank"):
        scores = [score_of(body["query"], text) for text in texts]
        best = sorted(range(len(scores)), key=lambda index: -scores[index])
        return {"results": [{"index": one, "relevance_score": scores[one]} for one in best], "usage": usage}
    said = " | ".join(message["content"] for message in body["messages"])
    choice = {"index": 0, "message": {"role": "assistant", "content": f"about {said}"}, "finish_reason": "stop"}
    used = {"prompt_tokens": tokens_of([said]), "completion_tokens": tokens_of([said]) + 1}
    return {"model": f"{body['model']}-2026", "choices": [choice], "usage": used}


def status(code: int, message: str = "try later", **headers: str) -> Fault:
    """Answers with an error; headers are written with _ for -."""

    def fault(handler: _Handler, _: Any) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(code, json.dumps({"error": {"message": message, "code": "some_code"}}), names)

    return fault


def soon(code: int = 429) -> Fault:
    """Answers with an error, and asks to come back in a moment."""
    return status(code, retry_after="0.005")


def cut(handler: _Handler, answer: Any) -> None:
    """Sends half of the body it has announced, and hangs up."""
    raw = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw[: len(raw) // 2])
    handler.close_connection = True


def hang_up(handler: _Handler, _: Any) -> None:
    """Closes the connection without a word."""
    handler.close_connection = True
    handler.connection.close()


def not_json(handler: _Handler, _: Any) -> None:
    handler.reply(200, "<html>Bad gateway</html>")


def drip(handler: _Handler, answer: Any) -> None:
    """Sends a byte now and then, forever: each is in time, the whole never."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.02)


def silent(handler: _Handler, _: Any) -> None:
    """Never answers, until the other side has hung up."""
    handler.connection.settimeout(30)
    handler.connection.recv(1)
    handler.close_connection = True


def one_less(_: _Handler, answer: Any) -> Any:
    return {**answer, "data": answer["data"][:-1]}


def one_more(_: _Handler, answer: Any) -> Any:
    return {**answer, "data": [*answer["data"], answer["data"][0]]}


def twice(_: _Handler, answer: Any) -> Any:
    """Gives one index to two vectors."""
    return {**answer, "data": [{**row, "index": 0} for row in answer["data"]]}


def not_a_number(_: _Handler, answer: Any) -> Any:
    first, *others = answer["data"]
    vector = [float("nan")] * 16
    return {**answer, "data": [{**first, "embedding": vector}, *others]}


def reordered(_: _Handler, answer: Any) -> Any:
    return {**answer, "data": answer["data"][::-1]}


def larger(_: _Handler, answer: Any) -> Any:
    """An answer of more than 3 MB."""
    return {"padding": "x" * 3_000_000, **answer}


def saying(reply: Callable[[str], str]) -> Fault:
    """Answers a chat request with what ``reply`` makes of the request's text."""

    def answered(_: _Handler, answer: Any) -> Any:
        message = answer["choices"][0]["message"]
        message["content"] = reply(message["content"])
        return answer

    return answered
