"""The errors that the command line turns into one clear message and an exit status."""

from collections.abc import Iterable
from pathlib import Path


class R2medError(Exception):
    """Something that the user can mend; its text says what and how. Exit status 1."""

    exit_status = 1


class UsageError(R2medError):
    """A command was called with words that make no sense. Exit status 2."""

    exit_status = 2


class MissingData(R2medError):
    """Files of a dataset are not there; the text says where to get them."""


class BadInput(R2medError):
    """One or more faults of input files, each already naming its file and line."""

    SHOWN = 20

    def __init__(self, faults: str | Iterable[str]):
        self.faults = [faults] if isinstance(faults, str) else list(faults)
        first = [cut(fault) for fault in self.faults[: self.SHOWN]]
        more = len(self.faults) - len(first)
        super().__init__("\n".join(first) + (f"\n... and {more:,} more" if more else ""))


def place(path: Path | str, line: int | None = None, column: int | None = None) -> str:
    """The usual `file:line:column` by which editors find a fault."""
    return ":".join(str(part) for part in (path, line, column) if part is not None)


def system_error(error: OSError) -> str:
    """What the system says of a file: "runs: Permission denied"."""
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


def cut(text: str, width: int = 400) -> str:
    """A text as a message shows it: cut where it is long."""
    return text if len(text) <= width else f"{text[:width]}... ({len(text):,} characters)"


def shown(value: object, width: int = 80) -> str:
    """A value as a message shows it."""
    try:
        return cut(repr(value), width)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of thousands of digits"
