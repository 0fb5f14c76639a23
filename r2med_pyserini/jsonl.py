"""Strict reading of JSON Lines: every fault is reported with file, line and column, many in one go."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson

from .errors import BadInput, cut, place
from .suggest import did_you_mean
from .textio import lines

MAX_FAULTS = 100


class Faults:
    """Collects faults of input files, so that a user mends them in one go and not one by one."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, where: Path | str, line: int | None, text: str) -> None:
        """Note a fault; gives up (raises BadInput) when there are too many to be worth reading on."""
        self._found.append(f"{place(where, line)}: {text}")
        if len(self._found) >= MAX_FAULTS:
            self.check()

    def check(self) -> None:
        """Raise BadInput with all faults found so far, if any."""
        if self._found:
            raise BadInput(self._found)


def objects(path: Path, faults: Faults) -> Iterator[tuple[int, dict]]:
    """Line number and object of every line of a JSON Lines file; lines that are none go to `faults`."""
    for number, line in lines(path):
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            value = _explain(path, number, line, faults)
        if isinstance(value, dict):
            yield number, value
        elif value is not _NOTED:
            faults.add(path, number, f"a JSON object is wanted here, not {line[:40].decode(errors='replace')}")


def no_key(key: str, row: dict) -> str:
    """The fault of a row that lacks a key."""
    return f"no key {key!r}{did_you_mean(key, row)} (keys here: {cut(', '.join(row), 100) or 'none'})"


_NOTED = object()  # a line whose fault has been noted already


def _explain(path: Path, number: int, line: bytes, faults: Faults) -> object:
    """The value of a line that orjson refuses but Python's parser takes; else _NOTED, after noting what is wrong."""
    try:
        value = json.loads(line.decode("utf-8"))
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return value
    except UnicodeDecodeError as error:
        faults.add(path, number, f"byte {error.start + 1} is not UTF-8 (save the file as UTF-8)")
    except UnicodeEncodeError:
        faults.add(path, number, "holds half of a surrogate pair (\\ud800 to \\udfff), which is no character")
    except json.JSONDecodeError as error:
        hint = " (it looks like UTF-16: save the file as UTF-8)" if b"\0" in line else ""
        faults.add(place(path, number, error.colno), None, f"not valid JSON: {error.msg}{hint}")
    except RecursionError:
        faults.add(path, number, "not valid JSON: nested too deeply")
    except ValueError as error:  # or a number of thousands of digits
        infinite = "NaN and Infinity are no JSON numbers" if "float" in str(error) else error
        faults.add(path, number, f"not valid JSON: {infinite}")
    return _NOTED
