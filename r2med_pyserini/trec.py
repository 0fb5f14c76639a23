"""Topics, qrels and runs: strict readers, and writers whose output trec_eval and Pyserini read.

Order of tied scores. A run lists its documents as the search engine ranked them; Anserini breaks ties by
document id, ascending. Evaluation follows trec_eval, which ignores the rank column and sorts by score
descending, then document id *descending* (as bytes).
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .errors import BadInput
from .jsonl import Faults, objects
from .textio import lines

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

RUN_COLUMNS = "query Q0 document rank score tag"
_QRELS_COLUMNS = "query 0 document relevance"
_BEIR_COLUMNS = "query document relevance"
_WHITE_SPACE = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")


def _rows(path: Path, wanted: Callable[[int], bool], columns: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every line whose number of fields is `wanted`; `columns` names them in faults.

    Fields are parted by ASCII white space only, as trec_eval does: an id may hold a no-break space.
    """
    for number, line in lines(path):
        fields = line.split()
        if wanted(len(fields)):
            try:
                yield number, [field.decode("utf-8") for field in fields]
            except UnicodeDecodeError:
                faults.add(path, number, "not UTF-8 (save the file as UTF-8)")
        else:
            faults.add(path, number, f"{len(fields)} columns; wanted are {columns}")


def read_run(path: Path) -> Run:
    """Read a TREC run (plain or gzipped): query -> document -> score, queries and documents in file order.

    Raises BadInput with every fault (file and line): wrong number of columns, a score that is no finite
    number, the same document twice for one query, no row at all.
    """
    faults, run, seen = Faults(), {}, {}
    for number, (query, _, document, _, text, _) in _rows(path, (6).__eq__, f"6: {RUN_COLUMNS}", faults):
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            faults.add(path, number, f"score {text!r} is not a finite number (columns: {RUN_COLUMNS})")
            continue
        first = seen.setdefault((query, document), number)
        if first != number:
            faults.add(path, number, f"document {document!r} of query {query!r} stands on line {first} already")
            continue
        run.setdefault(query, {})[document] = score
    faults.check()
    if not run:
        raise BadInput(f"{path}: holds no row; a run has lines of 6 columns: {RUN_COLUMNS}")
    return run


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


def relevance(value: object) -> int | None:
    """A relevance judgement as an integer: 2, "2" and 2.0 are one; None for anything else (0.5, true, "high")."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) < 2**31 else None


def read_qrels(path: Path) -> Qrels:
    """Read judgements: TREC qrels (4 columns, also gzipped), or R2MED's `.jsonl` with q_id, p_id and score.

    Negative relevance means judged, not relevant. Raises BadInput with every fault: wrong columns, a
    relevance that is no integer, one pair judged twice with different values, no row at all.
    """
    faults, qrels = Faults(), {}
    for number, row in judgement_rows(path, faults):
        if not {"q_id", "p_id", "score"} <= row.keys():
            faults.add(path, number, f"keys q_id, p_id and score are wanted (keys here: {', '.join(row)})")
            continue
        query, document, grade = str(row["q_id"]), str(row["p_id"]), relevance(row["score"])
        if grade is None:
            faults.add(path, number, f"relevance {row['score']!r} is not an integer")
        elif qrels.setdefault(query, {}).setdefault(document, grade) != grade:
            known = qrels[query][document]
            faults.add(path, number, f"query {query!r}, document {document!r}: judged {known} before, now {grade}")
    faults.check()
    if not qrels:
        raise BadInput(f"{path}: holds no judgement; qrels have lines of 4 columns: {_QRELS_COLUMNS}")
    return qrels


def judgement_rows(path: Path, faults: Faults) -> Iterator[tuple[int, dict]]:
    """Line number and {q_id, p_id, score} of every judgement, unchecked: what a `.jsonl` file holds, or columns.

    Columns are TREC's four, or BEIR's three (query, document, relevance) with or without a header line.
    """
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        yield from objects(path, faults)
        return
    first = True
    for number, fields in _rows(path, (3, 4).__contains__, f"4 ({_QRELS_COLUMNS}) or 3 ({_BEIR_COLUMNS})", faults):
        headed = first and len(fields) == 3 and relevance(fields[-1]) is None and fields[-1][0].isalpha()
        first = False
        if not headed:
            yield number, {"q_id": fields[0], "p_id": fields[-2], "score": fields[-1]}


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
        file.writelines(f"{query}\t{_WHITE_SPACE.sub(' ', topic['title'])}\n" for query, topic in ordered.items())


def read_topics(path: Path) -> dict[str, str]:
    """Query id -> text, in the order of the file that `write_topics` wrote."""
    return {query: topic["title"] for query, topic in json.loads(path.read_text(encoding="utf-8")).items()}
