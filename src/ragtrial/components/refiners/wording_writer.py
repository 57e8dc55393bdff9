"""Other wordings of a question, and answers to it, written by a chat model behind an endpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, ChatReply, ChatRequest
from ragtrial.components.endpoints.chat_text import unquoted
from ragtrial.records import Question, Written

PLACE = "{query}"

PROMPTS = {
    "rewrites": (
        "Write three other wordings of the search query below, as other people would ask for the same thing. Keep its "
        "language and its names. Answer with the three queries alone, one a line.\n\nQuery: {query}"
    ),
    "answer": (
        "Write a short passage, as it might be in a document, that answers the question below. Write it in the "
        "language of the question. Answer with the passage alone; if you do not know the answer, invent a likely one."
        "\n\nQuestion: {query}"
    ),
}
"""Prompts by name. The second follows Gao et al. 2023 (HyDE, https://aclanthology.org/2023.acl-long.99): the search is
for a text that looks like an answer."""

_MARK = re.compile(
    r"^\s*(?:[-*\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014]\s+|[\u30fb\u00b7]\s*|[(\uff08]?\d{1,2}(?:[.):]\s+|[\uff0e\uff09\u3001\uff1a]\s*)"
    r"|[\u2460-\u2473]\s*)"
)
"""A bullet or the number of a line: with white space behind it, or with a sign of full width."""


@dataclass(frozen=True)
class WordingWriter:
    """A chat model with a prompt; ``by_line`` takes each line of a reply as a wording of its own."""

    endpoint: ChatOptions
    prompt: str
    by_line: bool

    @property
    def key(self) -> str:
        """Equal for writers whose replies are interchangeable."""
        one = self.endpoint
        asked = [one.temperature, one.seed, one.max_tokens, one.fields, PROMPTS.get(self.prompt, self.prompt)]
        return fingerprint([one.answered_by(), asked])

    def request(self, question: Question) -> ChatRequest:
        """What the model is asked for ``question``."""
        return (ChatMessage("user", PROMPTS.get(self.prompt, self.prompt).replace(PLACE, question.text)),)

    def written(self, reply: ChatReply) -> Written:
        """``reply`` as a question keeps it."""
        text = reply.text
        if reply.is_cut and self.by_line:
            text = text.rpartition("\n")[0]  # the last wording is not whole
        return Written(self.key, text, reply.input_tokens, reply.output_tokens)

    def replies(self, question: Question) -> list[Written]:
        """What this writer has written for ``question``: one reply, or none yet."""
        return [one for one in question.written if one.by == self.key]

    def texts(self, question: Question) -> Sequence[str]:
        """The wordings in its reply, without numbers, bullets and quotation marks around them."""
        return [text for reply in self.replies(question) for text in self._texts(reply.text)]

    def _texts(self, reply: str) -> Sequence[str]:
        if not self.by_line:
            return [reply.strip()] if reply.strip() else []
        lines = (unquoted(_MARK.sub("", line)) for line in reply.splitlines())
        return [line for line in lines if line]
