"""Wordings that chat models write for questions, before retrieval. Each reply is paid for once and kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.refiners import Refiner
from ragtrial.components.tokenizers import estimated_tokens
from ragtrial.config.settings import Setting
from ragtrial.errors import counted, without_frames
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Amount
from ragtrial.progress import stage
from ragtrial.records import Question

if TYPE_CHECKING:  # few settings write wordings
    from ragtrial.components.endpoints.chat import ChatReply, ChatRequest, KeptReplies, WordingWriter
    from ragtrial.pipeline.dry_run import PlannedStage

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
    users: dict[str, list[str]] = {}
    writers: dict[str, WordingWriter] = {}
    for setting in settings:
        for one in setting.tree():
            writer = one.retriever.writer if isinstance(one.retriever, Refiner) else None
            if writer is not None:
                writers.setdefault(writer.key, writer)
                users.setdefault(writer.key, []).append(setting.name)
    failures: dict[str, Exception] = {}
    planned: list[PlannedStage] = []
    for key, writer in writers.items():
        writing = _Writing(writer, questions, resources)
        if asks:
            try:
                writing.ask()
            except Exception as error:  # noqa: BLE001 - kept as a value: other settings go on
                failures[key] = without_frames(error)
        planned.append(writing.planned(tuple(dict.fromkeys(users[key]))))
        questions = writing.answered()
    return WrittenWordings(questions, failures, planned)


@dataclass
class _Writing:
    """One writer and its questions."""

    writer: WordingWriter
    questions: Sequence[Question]
    resources: Resources

    def __post_init__(self) -> None:
        self._name = fingerprint(["chat", self.writer.endpoint.answered_by()])
        self._requests = [self.writer.request(question) for question in self.questions]

    @cached_property
    def _kept(self) -> KeptReplies:
        from ragtrial.components.endpoints.chat import KeptReplies

        self.resources.workspace.mark(_KIND, self._name)
        return KeptReplies(self.resources.workspace.path(_KIND, self._name).with_suffix(".jsonl"))

    def _reply(self, request: ChatRequest) -> ChatReply | None:
        return self._kept.get(self.writer.endpoint, request)

    def ask(self) -> None:
        """Ask for the replies that are missing. Raises EndpointError, ModelNotFoundError and WorkspaceError."""
        from ragtrial.components.endpoints.chat import replies

        endpoint, requests = self.writer.endpoint, dict.fromkeys(self._requests)
        with stage(self.resources.progress, f"wordings ({endpoint.model})", len(requests), "queries") as progress:
            answered = dict(replies(endpoint, requests, self._kept, progress.advance))  # each is kept
        refused = [request for request, reply in answered.items() if reply.refusal is not None]
        if refused:
            first = next(question for question in self.questions if self.writer.request(question) == refused[0])
            number = counted(len(refused), "query is", "queries are")
            reason = answered[refused[0]].refusal
            _LOG.warning("%s asked without other wordings, the first %r: %s", number, first.text[:60], reason)

    def answered(self) -> list[Question]:
        """The questions with the replies so far."""
        found = []
        for question, request in zip(self.questions, self._requests, strict=True):
            reply = self._reply(request)
            written = () if reply is None else (self.writer.written(reply),)
            found.append(replace(question, written=(*question.written, *written)))
        return found

    def planned(self, settings: tuple[str, ...]) -> PlannedStage:
        """The requests that are left, as a line of the plan."""
        from ragtrial.pipeline.dry_run import PlannedStage

        endpoint, requests = self.writer.endpoint, dict.fromkeys(self._requests)
        missing = [request for request in requests if self._reply(request) is None]
        read = sum(estimated_tokens(message.content) for request in missing for message in request)
        cost = endpoint.cost_of(read, _TOKENS_WRITTEN * len(missing)) if missing else None
        why = f"replies that are kept: {len(requests) - len(missing):,}" if missing else ""
        amount = Amount(len(requests), "questions", len(missing), seconds=None if missing else 0.0, cost=cost)
        to_do = ((_KIND, self._name),) if missing else ()
        return PlannedStage("wordings", endpoint.model, settings, why, amount, to_do)
