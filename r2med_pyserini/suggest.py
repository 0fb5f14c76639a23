"""The "did you mean" of error messages."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing if none is near."""
    import difflib  # only needed when something went wrong

    spelt = {str(name).lower(): str(name) for name in known}
    near = difflib.get_close_matches(word.lower(), spelt, n=1, cutoff=0.6)
    return f"; did you mean {spelt[near[0]]!r}?" if near else ""
