"""Opening input files: plain or gzipped, with whatever goes wrong told as BadInput."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import BadInput

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unzipped if it is gzipped (by its first bytes, not by its name)."""
    try:
        with path.open("rb") as plain:  # once: a pipe cannot be read twice
            start = plain.peek(2)[:2]  # of a pipe, perhaps one byte only; no text begins with that of gzip
            zipped = bool(start) and _GZIP.startswith(start)
            with gzip.open(plain, "rb") if zipped else plain as file:
                yield file
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every line that is not blank; a byte order mark and CR before LF are dropped.

    Lines end with LF only: U+2028 and its like may occur inside texts. Raises BadInput if the file cannot be read.
    """
    with open_binary(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            line = line.rstrip(b"\r\n")
            if line.strip():
                yield number, line
