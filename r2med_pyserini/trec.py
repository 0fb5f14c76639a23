"""Topics, qrels and runs: strict readers, and writers whose output trec_eval and Pyserini read.

Order of tied scores. A run lists its documents as the search engine ranked them; Anserini breaks ties by
document id, ascending. Evaluation follows trec_eval, which ignores the rank column and sorts by score
descending, then document id *descending* (as bytes).
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from .errors import BadInput, shown
from .jsonl import Faults, no_key, objects
from .textio import lines, open_binary

MAX_IDENTIFIER = 32_766
IDENTIFIER = f"text of 1 to {MAX_IDENTIFIER:,} bytes without white space or control characters"
_UNSAFE = re.compile("[\x00-\x1f\x7f\ufeff]")

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

RUN_COLUMNS = "query Q0 document rank score tag"
_QRELS_COLUMNS = "query 0 document relevance"
_BEIR_COLUMNS = "query document relevance"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_VISIBLE, _NUMERIC = bytes(range(33, 127)), b"0123456789+-.eE"
_BLOCK = 2**16  # bytes; more are slower, since they leave the processor's cache
MAX_RELEVANCE = 1000  # far beyond any grade in use; trec_eval's memory grows with it


def _rows(path: Path, wanted: Callable[[int], bool], columns: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every line whose number of fields is `wanted`; `columns` names them in faults.

    Fields are parted by ASCII white space only, as trec_eval does: an id may hold a no-break space.
    """
    for number, line in lines(path):
        fields = line.split()
        if b"\0" in line:
            faults.add(path, number, "holds a NUL character")
        elif wanted(len(fields)):
            try:
                yield number, [field.decode("utf-8") for field in fields]
            except UnicodeDecodeError:
                faults.add(path, number, "not UTF-8 (save the file as UTF-8)")
        else:
            faults.add(path, number, f"{len(fields)} columns; wanted are {columns}")


def read_run(path: Path) -> Run:
    """Read a TREC run (plain or gzipped): query -> document -> score, queries and documents in file order.

    Raises BadInput with every fault (file and line): wrong number of columns, a score that is no finite
    number, the same document twice for one query. A file without a row is a run without hits.
    """
    plain = _read_plain(path)
    if plain is not None:
        return plain
    faults, run, seen = Faults(), {}, {}
    for line, (query, _, document, _, text, _) in _rows(path, (6).__eq__, f"6: {RUN_COLUMNS}", faults):
        score = number(text)
        if score is None:
            faults.add(path, line, f"score {text!r} is not a finite number (columns: {RUN_COLUMNS})")
            continue
        first = seen.setdefault((query, document), line)
        if first != line:
            faults.add(path, line, f"document {document!r} of query {query!r} stands on line {first} already")
            continue
        run.setdefault(query, {})[document] = score
    faults.check()
    return run


def _read_plain(path: Path) -> Run | None:
    """The run of a file such as `write_run` writes, several times as fast; None for any other file, right or wrong.

    That is: ids of visible ASCII, a blank between columns, a newline after every row.
    """
    if not path.is_file():  # a pipe cannot be read twice
        return None
    run, rest = {}, b""
    with open_binary(path) as file:
        while block := file.read(_BLOCK):
            rows, newline, rest = (rest + block).rpartition(b"\n")
            if not newline or not _add_rows(run, rows + newline):
                return None
    return None if rest else run


def _add_rows(run: Run, data: bytes) -> bool:
    """Add lines to a run; False, having added any part of them, unless they have the form that `_read_plain` wants."""
    count = data.count(b"\n")
    if data.translate(None, _VISIBLE) != b"     \n" * count:
        return False
    fields = data.decode("ascii").split()
    documents, texts, start = fields[2::6], fields[4::6], 0
    if len(fields) != 6 * count or "".join(texts).encode().translate(None, _NUMERIC):
        return False
    try:
        scores = list(map(float, texts))
    except ValueError:
        return False
    if not all(map(math.isfinite, scores)):
        return False
    for query, same in groupby(fields[::6]):
        end, hits = start + len(list(same)), run.setdefault(query, {})
        wanted = len(hits) + end - start
        hits.update(zip(documents[start:end], scores[start:end], strict=True))
        if len(hits) != wanted:  # a document twice
            return False
        start = end
    return True


PYSERINI_SCORE, EXACT_SCORE = ".6f", ".9g"  # nine significant digits tell any two single-precision numbers apart


def write_run(
    path: Path,
    hits: Iterable[tuple[str, list[str], list[float]]],
    tag: str = "Anserini",
    score_format: str = PYSERINI_SCORE,
) -> None:
    """Write a run in the form of Pyserini's TREC writer: byte for byte, with its tag and score format.

    `hits` yields (query id, document ids, scores), best first.
    """
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for query, documents, scores in hits:
            file.writelines(
                f"{query} Q0 {document} {rank} {score:{score_format}} {tag}\n"
                for rank, (document, score) in enumerate(zip(documents, scores, strict=True), 1)
            )


def number(text: str) -> float | None:
    """A finite decimal number as trec_eval reads it; None for anything else, also for what only Python takes (1_0)."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def identifier(value: object) -> str | None:
    """An id as text; None for what is none: neither text nor whole number, empty, or with white space in it.

    A TREC file cannot hold an id with white space, since white space parts its columns. Control characters and byte
    order marks are lost on the way through trec_eval and Java, and Lucene keeps no longer id than MAX_IDENTIFIER bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or _UNSAFE.search(value):
        return None
    raw = value.encode()
    return value if raw.split() == [raw] and len(raw) <= MAX_IDENTIFIER else None


def relevance(value: object) -> int | None:
    """A relevance judgement as an integer: 2, "2" and 2.0 are one; None for anything else (0.5, true, "high").

    Also None beyond MAX_RELEVANCE either way.
    """
    if isinstance(value, str):
        value = number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= MAX_RELEVANCE:
        return None
    return int(value) if value == int(value) else None


def read_qrels(path: Path) -> Qrels:
    """Read judgements: TREC qrels (4 columns, also gzipped), or R2MED's `.jsonl` with q_id, p_id and score.

    Negative relevance means judged, not relevant. Raises BadInput with every fault: wrong columns, a
    relevance that is no integer, one pair judged twice with different values, no row at all.
    """
    faults, qrels = Faults(), {}
    for line, row in judgement_rows(path, faults):
        judgement = judged(path, line, row, faults)
        if judgement is None:
            continue
        query, document, grade = judgement
        known = qrels.setdefault(query, {}).setdefault(document, grade)
        if known != grade:
            faults.add(path, line, f"query {query!r}, document {document!r}: judged {known} before, now {grade}")
    faults.check()
    if not qrels:
        raise BadInput(f"{path}: holds no judgement; qrels have lines of 4 columns: {_QRELS_COLUMNS}")
    return qrels


def judged(path: Path, line: int, row: dict, faults: Faults) -> tuple[str, str, int] | None:
    """Query id, document id and relevance of a judgement; None after noting what is wrong with it."""
    good = True
    for key in ("q_id", "p_id", "score"):
        if key not in row:
            faults.add(path, line, no_key(key, row))
            good = False
        elif key == "score" and relevance(row[key]) is None:
            wanted = f"an integer from {-MAX_RELEVANCE:,} to {MAX_RELEVANCE:,}"
            faults.add(path, line, f"'score' is {shown(row[key])}; {wanted} is wanted")
            good = False
        elif key != "score" and identifier(row[key]) is None:
            faults.add(path, line, f"{key!r} is {shown(row[key])}; {IDENTIFIER} is wanted")
            good = False
    return (identifier(row["q_id"]), identifier(row["p_id"]), relevance(row["score"])) if good else None


def judgement_rows(path: Path, faults: Faults) -> Iterator[tuple[int, dict]]:
    """Line number and {q_id, p_id, score} of every judgement, unchecked: what a `.jsonl` file holds, or columns.

    Columns are TREC's four, or BEIR's three (query, document, relevance) with or without a header line.
    """
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        yield from objects(path, faults)
        return
    columns = 0
    for line, fields in _rows(path, (3, 4).__contains__, f"4 ({_QRELS_COLUMNS}) or 3 ({_BEIR_COLUMNS})", faults):
        headed = not columns and len(fields) == 3 and relevance(fields[-1]) is None and fields[-1][0].isalpha()
        columns = columns or len(fields)
        if len(fields) != columns:
            faults.add(path, line, f"{len(fields)} columns, but the rows above have {columns}")
        elif not headed:
            yield line, {"q_id": fields[0], "p_id": fields[-2], "score": fields[-1]}


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write TREC qrels, sorted as given."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for query, judged in qrels.items():
            file.writelines(f"{query} 0 {document} {grade}\n" for document, grade in judged.items())


def write_topics(as_json: Path, as_tsv: Path, topics: dict[str, str]) -> None:
    """Write topics twice, sorted by id as a string, which is the order of Pyserini's runs.

    The JSON form is the one that stages and commands read: Pyserini keeps its ids as strings ("007") and its
    texts whole. The TSV form, with white space folded to single blanks, is for line-based tools.
    """
    ordered = {query: {"title": topics[query]} for query in sorted(topics)}
    as_json.write_text(json.dumps(ordered, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    with as_tsv.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{query}\t{' '.join(topic['title'].split())}\n" for query, topic in ordered.items())


def read_topics(path: Path) -> dict[str, str]:
    """Query id -> text, in the order of the file that `write_topics` wrote."""
    return {query: topic["title"] for query, topic in json.loads(path.read_text(encoding="utf-8")).items()}
