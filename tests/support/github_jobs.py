"""A runner of GitHub Actions as far as our action needs one, and its API of comments on the loopback."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import yaml

from local_servers import Handler, serving

ROOT = Path(__file__).parents[2]
REPOSITORY = "owner/app"
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_WORD = re.compile(r"'[^']*'|&&|\|\||==|!=|!|[()]|[\w.-]+")
_OPERATORS = {"&&": "and", "||": "or", "!": "not", "==": "==", "!=": "!=", "(": "(", ")": ")"}
_STATES = ("always", "cancelled", "success")


def pull_request(number: int = 7, head: str = REPOSITORY, sha: str = "a" * 40) -> dict[str, Any]:
    """The event of a pull request from a branch of the repository ``head``."""
    return {"pull_request": {"number": number, "head": {"sha": sha, "repo": {"full_name": head}}}}


@dataclass
class Job:
    """One job in the checkout ``folder``. Steps that run are run by bash; the actions of others are recorded."""

    folder: Path
    temp: Path
    event: Mapping[str, Any]
    api: str = "http://127.0.0.1:9"
    tools: Path = Path(sys.executable).parent
    variables: Mapping[str, str] = field(default_factory=dict)
    used: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    log: str = ""
    code: int = 0
    """The exit code of the first step that failed."""

    @property
    def summary(self) -> str:
        path = self.temp / "summary.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def steps(self, steps: Sequence[Mapping[str, Any]], inputs: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Run the steps of a workflow or an action; the outputs of each by its id."""
        self.temp.mkdir(exist_ok=True)
        outputs: dict[str, dict[str, str]] = {}
        for step in steps:
            github = {"event": self.event, "repository": REPOSITORY, "token": "secret-token", "sha": "b" * 40}
            contexts = {"inputs": inputs, "github": github, "runner": {"os": "Linux", "temp": str(self.temp)},
                        "steps": {name: {"outputs": values} for name, values in outputs.items()}}  # fmt: skip
            if not self._is_run(str(step.get("if", "")), contexts):
                continue
            if "uses" in step:
                given = {name: self._text(value, contexts) for name, value in step.get("with", {}).items()}
                self.used.append((step["uses"], given))
                if "/ragtrial@" in step["uses"]:
                    outputs[step.get("id", "")] = self.action(given)
            else:
                outputs[step.get("id", "")] = self._run(step, contexts)
        return outputs

    def action(self, given: Mapping[str, str]) -> dict[str, str]:
        """Run our action with these inputs; its outputs."""
        action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        assert set(given) <= set(action["inputs"])
        contexts = {"github": {"token": "secret-token"}}
        inputs = {name: self._text(one["default"], contexts) for name, one in action["inputs"].items()} | dict(given)
        outputs = self.steps(action["runs"]["steps"], inputs)
        known = {"steps": {name: {"outputs": values} for name, values in outputs.items()}}
        return {name: self._text(one["value"], known) for name, one in action["outputs"].items()}

    def _is_run(self, condition: str, contexts: Mapping[str, Any]) -> bool:
        condition = condition.removeprefix("${{").removesuffix("}}")
        has_state = any(f"{name}()" in condition for name in _STATES)
        return (has_state or not self.code) and bool(self._value(condition or "success()", contexts))

    def _run(self, step: Mapping[str, Any], contexts: Mapping[str, Any]) -> dict[str, str]:
        assert "${{" not in step["run"], "an expression in a script would be run as code"
        files = {name: self.temp / f"{name}.txt" for name in ("output", "event")}
        files["output"].write_text("")
        files["event"].write_text(json.dumps(self.event))
        environment = {
            **os.environ, **self.variables,
            **{name: self._text(value, contexts) for name, value in step.get("env", {}).items()},
            "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120",
            "RUNNER_TEMP": str(self.temp), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(files["output"]),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"), "GITHUB_EVENT_PATH": str(files["event"]),
            "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_SHA": "b" * 40, "GITHUB_API_URL": self.api,
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_RUN_ID": "42",
        }  # fmt: skip
        place = self.folder / self._text(step.get("working-directory", "."), contexts)
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=place,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        self.log += done.stdout
        self.code = self.code or done.returncode
        return dict(line.split("=", 1) for line in files["output"].read_text().splitlines())

    def _text(self, value: object, contexts: Mapping[str, Any]) -> str:
        return _EXPRESSION.sub(lambda match: str(self._value(match[1], contexts)), str(value))

    def _value(self, expression: str, contexts: Mapping[str, Any]) -> Any:
        words = [_OPERATORS.get(word) or (word if word[0] == "'" or word in _STATES else repr(_at(contexts, word)))
                 for word in _WORD.findall(expression)]  # fmt: skip
        states = {"always": lambda: True, "cancelled": lambda: False, "success": lambda: not self.code}
        return eval(" ".join(words), states)

    def commands(self) -> list[str]:
        """The lines of the log that steer the job."""
        token, commands = "", []
        for line in self.log.splitlines():
            if token:
                token = "" if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.lstrip().startswith("::") or "##[" in line:
                commands.append(line)
        return commands


def _at(contexts: Any, path: str) -> Any:
    name, dot, rest = path.partition(".")
    value = contexts.get(name, "") if isinstance(contexts, Mapping) else ""
    return _at(value, rest) if dot else value


@dataclass
class Comments:
    """Comments of pull request 7 and the requests about them; ``login`` is the user of the token, if it has one.

    GitLab's notes of a merge request are the same. Changes are answered with ``status``, unless it is 200.
    """

    address: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    login: str | None = None
    status: int = 200

    def add(self, body: str, user: str = "", kind: str = "User") -> dict[str, Any]:
        user, number = user or self.login or "project_1_bot_5", len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "html_url": f"https://c/{number}",
                              "user": {"login": user, "type": kind}, "author": {"username": user}})  # fmt: skip
        return self.comments[-1]

    def answer(self, method: str, path: str, fields: Mapping[str, str]) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        self.requests.append((method, path))
        if path == "/user":
            return (200, {"login": self.login}) if self.login else (403, {})
        assert re.match(r"/(repos/owner/app/issues/(7/)?comments|projects/1/merge_requests/7/notes)\b", path)
        if method == "GET":
            page = int(re.findall(r"&page=(\d+)|$", path)[0] or 1)
            return 200, self.comments[(page - 1) * 100 : page * 100]
        if self.status != 200:
            return self.status, {}
        if method == "POST":
            return 201, self.add(fields["body"], kind="User" if self.login else "Bot")
        comment = self.comments[int(path.rpartition("/")[2]) - 1]
        comment["body"] = fields["body"]
        return 200, comment


@contextmanager
def comments_api() -> Iterator[Comments]:
    """A server of comments, which demands a token; gone after the block."""
    comments = Comments()

    class Api(Handler):
        def answer(self) -> None:
            assert "secret-token" in (self.headers["PRIVATE-TOKEN"], str(self.headers["Authorization"])[7:])
            body = self.body().decode()
            fields = dict(parse_qsl(body)) if body.startswith("body=") else json.loads(body or "{}")
            status, content = comments.answer(self.command, self.path, fields)
            self.reply(status, json.dumps(content), {"Location": f"{comments.address}/elsewhere"})

        do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815 - the names of http.server

    with serving(Api) as comments.address:
        yield comments
