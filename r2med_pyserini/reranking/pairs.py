"""What is scored."""

from typing import NamedTuple


class Pair(NamedTuple):
    """A query's text and a document's."""

    query: str
    document: str
