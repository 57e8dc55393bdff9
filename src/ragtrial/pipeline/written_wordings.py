"""Wordings that chat models write for questions, before retrieval. Each reply is paid for once and kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.refiners.base import Refiner
from ragtrial.components.tokenizers import estimated_tokens
from ragtrial.config.settings import Setting
from ragtrial.errors import counted, without_frames
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Amount, PlannedStage
from ragtrial.progress import stage
from ragtrial.records import Question

if TYPE_CHECKING:  # few settings write wordings
    from ragtrial.components.endpoints.chat import ChatRequest, KeptReplies, WordingWriter

_LOG = logging.getLogger(__name__)
_KIND = "answers"
_TOKENS_WRITTEN = 80
"""The estimated tokens of a reply, before any has been seen."""


@dataclass(frozen=True)
class WrittenWordings:
    """Questions with their written wordings.

    ``failures`` has the errors of writers, by the writer's key; ``planned`` the requests to send.
    """

    questions: Sequence[Question]
    failures: Mapping[str, Exception] = field(default_factory=dict)
    planned: Sequence[PlannedStage] = ()


def write_wordings(
    settings: Sequence[Setting], questions: Sequence[Question], resources: Resources, *, asks: bool = True
) -> WrittenWordings:
    """``questions`` with the replies of every model that writes wordings for ``settings``.

    Kept replies are reused. The others are requested, unless ``asks`` is false. If one fails, earlier replies stay.
    """
    users: dict[str, dict[str, None]] = {}
    writers: dict[str, WordingWriter] = {}
    for setting in settings:
        for part in setting.tree():
            writer = part.retriever.writer if isinstance(part.retriever, Refiner) else None
            if writer is not None:
                writers.setdefault(writer.key, writer)
                users.setdefault(writer.key, {})[setting.name] = None
    failures: dict[str, Exception] = {}
    planned: list[PlannedStage] = []
    for key, writer in writers.items():
        name, requests = fingerprint(["chat", writer.endpoint.answered_by()]), list(map(writer.request, questions))
        kept = _kept_replies(name, resources)
        if asks:
            try:
                _ask(writer, dict(zip(requests, questions, strict=True)), kept, resources)
            except Exception as error:  # noqa: BLE001 - kept as a value: other settings go on
                failures[key] = without_frames(error)
        replies = [kept.get(writer.endpoint, request) for request in requests]
        missing = {request: None for request, reply in zip(requests, replies, strict=True) if reply is None}
        planned.append(_planned(writer, len(set(requests)), list(missing), name, tuple(users[key])))
        written = [() if reply is None else (writer.written(reply),) for reply in replies]
        pairs = zip(questions, written, strict=True)
        questions = [replace(question, written=(*question.written, *own)) for question, own in pairs]
    return WrittenWordings(questions, failures, planned)


def _kept_replies(name: str, resources: Resources) -> KeptReplies:
    from ragtrial.components.endpoints.chat import KeptReplies

    resources.workspace.mark(_KIND, name)
    return KeptReplies(resources.workspace.path(_KIND, name).with_suffix(".jsonl"))


def _ask(
    writer: WordingWriter, requests: Mapping[ChatRequest, Question], kept: KeptReplies, resources: Resources
) -> None:
    """Ask for the replies that are missing. Raises EndpointError, ModelNotFoundError and WorkspaceError."""
    from ragtrial.components.endpoints.chat import replies

    name = f"wordings ({writer.endpoint.model})"
    with stage(resources.progress, name, len(requests), "queries") as progress:
        answered = dict(replies(writer.endpoint, requests, kept, progress.advance))  # each is kept
    refused = [request for request in requests if answered[request].refusal is not None]
    if refused:
        number, first = counted(len(refused), "query is", "queries are"), requests[refused[0]]
        reason = answered[refused[0]].refusal
        _LOG.warning("%s asked without other wordings, the first %r: %s", number, first.text[:60], reason)


def _planned(
    writer: WordingWriter, count: int, missing: Sequence[ChatRequest], name: str, settings: tuple[str, ...]
) -> PlannedStage:
    """The requests that are left, as a line of the plan."""
    read = sum(estimated_tokens(message.content) for request in missing for message in request)
    cost = writer.endpoint.cost_of(read, _TOKENS_WRITTEN * len(missing)) if missing else None
    why = f"replies that are kept: {count - len(missing):,}" if missing else ""
    amount = Amount(count, "questions", len(missing), seconds=None if missing else 0.0, cost=cost)
    to_do = ((_KIND, name),) if missing else ()
    return PlannedStage("wordings", writer.endpoint.model, settings, why, amount, to_do)
