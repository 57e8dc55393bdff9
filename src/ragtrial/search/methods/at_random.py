"""Settings at random: drawn before any is scored, so that what is chosen says nothing of the labels."""

from __future__ import annotations

from ragtrial.search.session import Session


def search_at_random(session: Session) -> None:
    """Try as many settings as may be tried, each another one."""
    session.try_all(session.draw(session.left))
