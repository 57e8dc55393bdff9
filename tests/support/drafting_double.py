"""A model that drafts questions without being one: it replies as it is asked, from the passage that it is shown."""

import hashlib
import re

from endpoint_double import saying


def draft(request: str) -> str:
    """A question with a few words of the passage's longest line, and others; the line is the answer."""
    ((_, passage),) = re.findall(r"<passage id=([0-9a-f]{16})>\n(.*)\n</passage id=\1>", request, re.DOTALL)
    line = max((line.strip() for line in passage.split("\n")), key=len)
    few = " ".join(re.findall(r"\w{4,}", line)[:2])
    number = int(hashlib.sha256(passage.encode()).hexdigest()[:4], 16)
    if "does not answer" in request:
        return f"Question: Who invented {few}, inventor number {number}?\nAnswer: none"
    return f"Question: Anything customers should understand concerning {few}, ticket {number}?\nAnswer: {line}"


DRAFTING = saying(draft)
