"""Markdown as code hosts show it, with every text escaped: nothing in a title or a note can become markup."""

import re
from collections.abc import Iterable, Sequence

from .report.grid import MARKDOWN, grid
from .site_facts import Part

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&$])")  # & begins an entity, $ a formula
_LIST_START = re.compile(r"^(?:[-+]|\d+[.)])(?= |$)")


def text(given: str) -> str:
    """A text that shows as it stands, on one line."""
    escaped = _SPECIAL.sub(r"\\\1", " ".join(given.split()))
    return _LIST_START.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", escaped)


def code(given: str) -> str:
    """A text in the type of code, on one line."""
    line = " ".join(given.split())
    ticks = "`" * (_longest(line) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{padding}{line}{padding}{ticks}"


def fence(given: str, language: str = "") -> str:
    """Lines of code, as they stand."""
    ticks = "`" * max(3, _longest(given) + 1)
    return f"{ticks}{language}\n{given}\n{ticks}"


def link(label: str, href: str) -> str:
    """A link; `href` is a URL whose odd characters are escaped already."""
    return f"[{text(label)}](<{href.replace('<', '%3C').replace('>', '%3E')}>)"


def parts(given: Iterable[Part]) -> str:
    """Pieces of a sentence. Links to pages of the site lead to their Markdown twins."""
    return "".join(map(_part, given))


def _part(part: Part) -> str:
    if part.href:
        page = part.href.endswith(".html") and not part.href.startswith("https://")
        return link(part.text, f"{part.href.removesuffix('.html')}.md" if page else part.href)
    if part.code:
        return code(part.text)
    start, end = (" " * (part.text != strip) for strip in (part.text.lstrip(), part.text.rstrip()))
    return f"{start}{text(part.text)}{end}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """A table of cells that are Markdown already."""
    return grid(header, [[_in_cell(cell) for cell in row] for row in rows], MARKDOWN, left)


def _in_cell(cell: str) -> str:
    """A bar ends a cell, even in code."""
    return re.sub(r"(?<!\\)\|", r"\\|", cell)


def _longest(given: str) -> int:
    """The length of the longest row of back-ticks."""
    return max(map(len, re.findall("`+", given)), default=0)
