"""Write the result of `ragtrial run` to the summary of a job, and to one comment on its pull request.

The comment begins with an invisible marker, by which the next run finds and edits it. Only the standard library is
used, because the installation of ragtrial may be what failed. The token goes to GITHUB_API_URL only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

MOST_OF_COMMENT = 65_000
"""Characters, of the 65,536 that GitHub takes."""
MOST_OF_SUMMARY = 1_000_000
"""Characters, which are bytes here: Markdown of ragtrial is ASCII. GitHub takes a mebibyte."""

PAGES = 50
"""Pages of 100 comments that are searched for ours."""

REASONS = {
    "": "ragtrial did not run: its installation, the config, the labels or the documents have a fault.",
    "2": "Nothing was run: the config, the labels or the options have a fault.",
    "3": "The run failed, or it cannot be compared with the baseline.",
}


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: it would take the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class PullRequest:
    """A pull request of ``repository``, by its ``number``, seen with a ``token``."""

    def __init__(self, api: str, token: str, repository: str, number: int) -> None:
        self._api, self._token = api, token
        self._repository, self._number = f"/repos/{repository}", number

    def write(self, marker: str, text: str) -> str:
        """Edit our comment that begins with ``marker``, or post it; its address. Raises OSError, ValueError."""
        body = {"body": f"{marker}\n{text}"}
        for comment in self._own_comments():
            if str(comment["body"]).startswith(marker):
                return str(self._call("PATCH", f"{self._repository}/issues/comments/{comment['id']}", body)["html_url"])
        return str(self._call("POST", f"{self._repository}/issues/{self._number}/comments", body)["html_url"])

    def _own_comments(self) -> Iterator[Mapping[str, Any]]:
        """The comments of the token's user: a comment of somebody else may have our marker, too.

        The token of a job cannot ask who it is; its comments are those of bots.
        """
        try:
            login = self._call("GET", "/user")["login"]
        except HTTPError:
            login = None
        for page in range(1, PAGES + 1):
            path = f"{self._repository}/issues/{self._number}/comments?per_page=100&page={page}"
            comments = self._call("GET", path)
            for comment in comments:
                user = comment["user"] or {}
                if user.get("login") == login if login else user.get("type") == "Bot":
                    yield comment
            if len(comments) < 100:
                return

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/vnd.github+json",
                   "Content-Type": "application/json", "User-Agent": "ragtrial"}  # fmt: skip
        content = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._api}{path}", content, headers, method=method)
        with build_opener(_NoRedirects).open(request, timeout=30) as answer:
            return json.load(answer)


def result(environment: Mapping[str, str], event: Mapping[str, Any]) -> str:
    """The Markdown of the run, or the reason why there is none; then the commit and a link to the log."""
    folder = environment.get("FOLDER", "")
    path = Path(folder, "gates.md")
    if folder and path.exists():
        text = path.read_text(encoding="utf-8")
    else:
        name, code = plain(environment["NAME"]), environment.get("CODE", "")
        reason = REASONS.get(code, f"The run ended with exit code {code}.")
        text = f"### <code>{name}</code>: no result\n\n{reason} The log has details.\n"
    commit = (event.get("pull_request") or {}).get("head", {}).get("sha") or environment["GITHUB_SHA"]
    run = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}".format_map(environment)
    return f"{text}\n<sub>Commit {plain(commit)}, [log]({run})</sub>\n"


def shortened(text: str, most: int) -> str:
    """``text`` as it is, or its first lines and its last one in at most ``most`` characters; no fold stays open."""
    if len(text) <= most:
        return text
    head, last = text[: most - 1_000], text.splitlines()[-1]
    head = head[: head.rfind("\n")]
    fold = "\n\n</details>" * (head.count("<details>") - head.count("</details>"))
    return f"{head}{fold}\n\nThe rest is left out here; the files of --markdown and --csv have all.\n\n{last}\n"


def plain(name: str) -> str:
    """``name`` with an underscore for each character that could be markup, or end an HTML comment."""
    return re.sub("[^A-Za-z0-9_./-]|-(?=-)", "_", name)


def publish(environment: Mapping[str, str]) -> None:
    """Write the summary; write the comment if there is a token, or a warning of the job that says why not."""
    event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    text = result(environment, event)
    with Path(environment["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
        summary.write(shortened(text, MOST_OF_SUMMARY))
    if not environment.get("TOKEN"):
        return
    try:
        number = int(event["pull_request"]["number"])
        pull_request = PullRequest(
            environment["GITHUB_API_URL"], environment["TOKEN"], environment["GITHUB_REPOSITORY"], number
        )
        print(pull_request.write(f"<!-- ragtrial: {plain(environment['NAME'])} -->", shortened(text, MOST_OF_COMMENT)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        advice = " Does the job have the permission `pull-requests: write`?" if "HTTP Error 403" in str(error) else ""
        reason = " ".join(f"{error}.{advice}".split()).replace("%", "%25")
        print(f"::warning title=ragtrial::The comment was not written, but the summary was: {reason}")


if __name__ == "__main__":
    publish(os.environ)
