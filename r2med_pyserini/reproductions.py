"""The reproduction logs in docs/: Markdown with a heading for each condition, and a list item for each reproduction.

    ## bm25

    - Results reproduced by [@name](https://github.com/name) on 2026-05-17 (commit [`0123abc`](https://...));
      [record](logs/mini/2026-05-17-name-0123abc.json)

(on one line). The log of suite `mini` is one of its own: it says nothing of R2MED. Whatever else stands in a log stays.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from .errors import BadInput, UsageError, shown
from .paths import MINI

LOGS = "logs"  # the folder of records, beside the logs
_MAIN = "r2med"
_HANDLE = r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}"
_HEADING = re.compile(r"## (\S+)\s*")
_ITEM = re.compile(
    rf"[-*+] Results reproduced by \[@({_HANDLE})\]\(https://github\.com/\1\) on (\d{{4}}-\d\d-\d\d) "
    r"\(commit (?:\[`([0-9a-f]{7,40})`\]\(([^()\s]+)\)|`([0-9a-f]{7,40})`)(, OKish)?\)"
    r"(?:; \[record\]\(([^()\s]+)\))?\s*"
)
_INTRODUCTION = """\
# Reproduction log{of}

{what}

Each line says that somebody ran a condition on every dataset of the suite, from unchanged code at the commit
that it names, and that all scores were OK: equal to the recorded ones to four decimals, or within the condition's
tolerance of the published ones. (OKish: within 0.0005, or five tolerances.) `r2med log` writes these lines, and the
records beside them; `r2med verify-log` holds a record against runs.
"""
_WHAT = {
    _MAIN: "Who has reproduced the scores of R2MED.",
    MINI.name: "Who has reproduced the scores of the embedded sample, which are not R2MED's.",
}
SUITES = tuple(_WHAT)  # those that have a log


@dataclass(frozen=True)
class Reproduction:
    """One line of a log. `commit_page` is where people look at the commit; `record` is a path as seen from the log."""

    handle: str
    date: str
    commit: str
    commit_page: str | None = None
    okish: bool = False
    record: str | None = None

    def is_same(self, other: "Reproduction") -> bool:
        """Whether the same user says it of the same commit; GitHub takes handles in any case."""
        one, two = sorted((self.commit, other.commit), key=len)
        return two.startswith(one) and self.handle.lower() == other.handle.lower()

    def __str__(self) -> str:
        """The line's text, without the list's mark."""
        commit = f"[`{self.commit}`]({self.commit_page})" if self.commit_page else f"`{self.commit}`"
        who = f"[@{self.handle}](https://github.com/{self.handle})"
        text = f"Results reproduced by {who} on {self.date} (commit {commit}{', OKish' if self.okish else ''})"
        return f"{text}; [record]({self.record})" if self.record else text


def handle_of(word: str) -> str:
    """A GitHub handle, with or without @. Raises UsageError for what cannot be one.

    Letters and digits, at most 39, with single hyphens between them: so says GitHub where one signs up.
    """
    handle = word.removeprefix("@")
    if not re.fullmatch(_HANDLE, handle):
        wanted = "letters and digits, at most 39, with single hyphens between them"
        raise UsageError(f"{shown(word)} is no GitHub handle ({wanted})")
    return handle


def log_of(suite: str, docs: Path) -> Path:
    """The log of a suite."""
    return docs / ("reproduction-log.md" if suite == _MAIN else f"reproduction-log-{suite}.md")


def read(log: Path) -> dict[str, list[Reproduction]]:
    """Condition -> its reproductions, in the order of the log; empty if there is no log. Raises BadInput."""
    found: dict[str, list[Reproduction]] = {}
    condition = None
    for line in text_of(log).splitlines():
        heading, item = _HEADING.fullmatch(line), _ITEM.fullmatch(line)
        if line.startswith("#"):
            condition = heading[1] if heading else None
        elif item and condition:
            handle, date, linked, page, plain, okish, record = item.groups()
            entry = Reproduction(handle, date, linked or plain, page, bool(okish), record)
            found.setdefault(condition, []).append(entry)
    return found


def text_of(log: Path) -> str:
    """The text of a log; empty if there is none. Raises BadInput if it cannot be read."""
    try:
        return log.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{log}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def with_added(text: str, suite: str, condition: str, entry: Reproduction) -> str:
    """The text of a log with one more reproduction, below the others of its condition; conditions are sorted.

    An empty text gets the head of the suite's log first.
    """
    if not text.strip():
        text = _INTRODUCTION.format(of="" if suite == _MAIN else f" of suite {suite}", what=_WHAT[suite])
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    headings = {at: match[1] for at, line in enumerate(lines) if (match := _HEADING.fullmatch(line))}
    own = [at for at, name in headings.items() if name == condition]
    if own:
        at = next((at for at in range(own[0] + 1, len(lines)) if lines[at].startswith("#")), len(lines))
        new = [f"- {entry}"]
        while not lines[at - 1].strip():
            at -= 1
        if at == own[0] + 1:
            new.insert(0, "")
    else:
        at = next((at for at, name in headings.items() if name > condition), len(lines))
        new = [f"## {condition}", "", f"- {entry}", ""]
        if lines[at - 1].strip():
            new.insert(0, "")
    return ending.join([*lines[:at], *new, *lines[at:]]).rstrip() + ending
