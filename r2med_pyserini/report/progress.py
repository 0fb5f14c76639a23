"""What a person sees while stages run: a line for each that did something, and on a terminal what is running now."""

import shutil
import time
from typing import TextIO

import click

from ..stages import Progress

LOG_EVERY = 15  # seconds between two lines of what is running, where there is no terminal


class Printer:
    """Writes progress to `stream`; call it with every Progress."""

    def __init__(self, stream: TextIO):
        self._stream, self._live = stream, stream.isatty()
        self._began = time.monotonic()
        self._next = self._began + LOG_EVERY

    def _due(self) -> bool:
        """Whether it is time for another line in a log file."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + LOG_EVERY
        return True

    def __call__(self, progress: Progress) -> None:
        """Show one step."""
        stage = progress.stage
        if self._live:
            self._stream.write("\r\x1b[K")
        if stage is not None and progress.built:
            count = f"[{progress.done:>{len(str(progress.total))}}/{progress.total}]"
            click.echo(f"{count} {stage.verb:<8} {stage.subject}  {progress.seconds:.1f} s", file=self._stream)
        if progress.running and (self._live or self._due()):
            names = ", ".join(f"{stage} {stage.status()}".rstrip() for stage in progress.running)
            text = f"{time.monotonic() - self._began:.0f} s  {progress.done}/{progress.total} done, now: {names}"
            self._stream.write(text[: shutil.get_terminal_size().columns - 1] if self._live else f"{text}\n")
        self._stream.flush()


class Counter:
    """Writes to `stream` how many of how many texts are done; call it as often as you like."""

    def __init__(self, stream: TextIO):
        self._stream, self._every = stream, 1 if stream.isatty() else LOG_EVERY
        self._began = self._last = time.monotonic()

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show it, unless something was shown a moment ago."""
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            click.echo(f"{now - self._began:.0f} s  {name}: {done:,} of {total:,} texts", file=self._stream)
