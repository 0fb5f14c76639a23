"""Reading YAML strictly: a key given twice is a fault, and all faults of a file are reported together."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from . import trec
from .errors import BadInput, cut, shown
from .suggest import did_you_mean

Range = tuple[float, float]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML in which a key given twice is a fault, not a silent choice of the last."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            problem = f"key {key!r} stands twice" if str(key) in seen else None
            if isinstance(key, (list, dict)):
                problem = f"a key is a word, not {key!r}"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(str(key))
        return super().construct_mapping(node, deep)


def read(text: str, where: Path | str) -> object:
    """The value that a YAML text stands for. Raises BadInput that names `where`, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}:{error.problem_mark.column + 1}" if error.problem_mark else ""
        raise BadInput(f"{where}{line}: not valid YAML: {error.problem}") from error
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise BadInput(f"{where}: not valid YAML: {shown(str(error))}") from error  # PyYAML lets some of these through


class Reader:
    """Checks the parts of one description, and collects every fault in `faults`."""

    def __init__(self, where: Path | str):
        self._where = where
        self.faults: list[str] = []

    def fault(self, text: str) -> None:
        """Note a fault."""
        self.faults.append(cut(f"{self._where}: {text}"))

    def mapping(self, value: object, name: str, known: Iterable[str], required: Iterable[str] = ()) -> dict:
        """`value` as a mapping without the keys that are not `known`; these, and what is `required`, are faults."""
        known = set(known)
        if not isinstance(value, dict):
            self.fault(f"{name}: a mapping is wanted, not {shown(value)}")
            return {}
        for key in value:
            if key not in known:
                self.fault(f"{name}: unknown key {key!r}{did_you_mean(str(key), known)}")
        for key in sorted(set(required) - value.keys()):
            self.fault(f"{name}: key {key!r} is missing")
        return {key: value[key] for key in value if key in known}

    def choice(self, value: object, name: str, known: Iterable[str]) -> bool:
        """Whether `value` is one of the words `known`; a fault if not."""
        known = tuple(known)
        if value not in known:
            self.fault(f"{name}: {shown(value)} is none of {', '.join(known)}{did_you_mean(str(value), known)}")
        return value in known

    def flag(self, value: object, name: str) -> bool:
        """`value` as true or false; a fault, and false, if it is neither."""
        if not isinstance(value, bool):
            self.fault(f"{name} is {shown(value)}; true or false is wanted")
        return value is True

    def numbers(self, values: Mapping, name: str, ranges: Mapping[str, Range], whole: Iterable[str]) -> dict:
        """The numbers among `values`, each in its range; those named in `whole` are whole numbers."""
        good = {}
        for key, value in values.items():
            low, high = ranges[key]
            kind = "a whole number" if key in whole else "a number"
            number = isinstance(value, int if key in whole else (int, float)) and not isinstance(value, bool)
            if not number or not low <= value <= high:
                hint = (
                    " (YAML takes 1e-3 for text: write 1.0e-3)" if isinstance(value, str) and trec.number(value) else ""
                )
                self.fault(f"{name}: {key} is {shown(value)}; {kind}, {low:,} to {high:,}, is wanted{hint}")
            else:
                good[key] = value if key in whole else float(value)
        return good
