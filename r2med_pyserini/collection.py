"""Raw files of a dataset -> a Pyserini collection, topics, qrels, and a health report."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson

from .artifacts import write_json
from .errors import BadInput, cut, place, shown
from .jsonl import Faults, no_key, objects
from .paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE, Collection
from .rawfiles import locate, missing
from .trec import IDENTIFIER, identifier, judged, judgement_rows, write_qrels, write_topics

# Java's String.trim, by which Anserini decides that a document is empty, strips these
_JAVA_BLANK = "".join(map(chr, range(0x21)))
MAX_TEXT = 20_000_000
_KEYS = {"id", "text", "doc_id", "answer", "body_system", "q_id", "p_id", "score"}


def convert(raw: Path, collection: Collection) -> dict:
    """Write the collection of the dataset in folder `raw` and return its health report.

    The report counts documents, queries and judgements, and names what is odd but no error: empty documents
    and queries, lines given twice, judged documents and queries that are not there, queries without judgements.
    Raises BadInput with every fault of the three files.
    """
    collection.corpus.mkdir(parents=True, exist_ok=True)
    faults = Faults()
    health: dict = {"documents": 0, "queries": 0, "judgements": 0, "relevant": 0}
    files = locate(raw)
    lacking = missing(raw)
    if lacking:
        raise BadInput(f"{raw}: lacks {', '.join(lacking)}")
    documents = _convert_corpus(files[CORPUS_FILE], collection.docs, health, faults)
    topics = _read_queries(files[QUERY_FILE], health, faults)
    qrels = _read_judgements(files[QRELS_FILE], health, faults)
    faults.check()
    for name, rows in ((CORPUS_FILE, documents), (QUERY_FILE, topics), (QRELS_FILE, qrels)):
        if not rows:
            raise BadInput(f"{files[name]}: holds no row")
    health["judged documents missing"] = sorted({document for row in qrels.values() for document in row} - documents)
    health["judged queries missing"] = sorted(qrels.keys() - topics.keys())
    health["queries without judgements"] = sorted(topics.keys() - qrels.keys())
    write_topics(collection.topics, collection.topics_tsv, topics)
    write_qrels(collection.qrels, {query: dict(sorted(qrels[query].items())) for query in sorted(qrels)})
    write_json(collection.health, health)
    return health


def read_health(collection: Collection) -> dict:
    """The health report that `convert` wrote."""
    return json.loads(collection.health.read_text(encoding="utf-8"))


def documents(docs: Path) -> Iterator[tuple[str, str]]:
    """Id and text of every document of a collection, in its order."""
    with docs.open("rb") as file:
        for line in file:
            row = orjson.loads(line)
            yield row["id"], row["contents"]


def indexable(health: dict) -> int:
    """How many documents reach an index: Anserini leaves empty ones out."""
    return health["documents"] - len(health.get("empty documents", []))


def warnings(health: dict) -> list[str]:
    """The findings of a health report as sentences, the most important first."""
    listed = {
        "judged documents missing": "judged but not in the corpus",
        "judged queries missing": "judged but not among the queries (they count 0)",
        "queries without judgements": "queries without judgements (not evaluated)",
        "empty queries": "empty queries (no hits)",
        "empty documents": "empty documents",
        "documents given twice": "documents given twice in the same words, kept once",
        "queries given twice": "queries given twice in the same words, kept once",
        "judgements given twice": "judgements given twice, kept once",
        "documents with another's text": "documents whose text another one has too",
        "queries with another's text": "queries whose text another one has too",
        "ids written as numbers": "ids written as numbers, read as text",
        "keys not used": "keys that are not used",
    }
    found = []
    for key, text in listed.items():
        names = health.get(key, [])
        if names:
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            found.append(cut(f"{len(names):,} {text}: {shown}"))
    return found


def _note_numeric(path: Path, line: int, row: dict, keys: tuple[str, ...], health: dict) -> None:
    if any(isinstance(row.get(key), int) for key in keys):
        health.setdefault("ids written as numbers", []).append(place(path.name, line))


def _note_unused(path: Path, row: dict, health: dict) -> None:
    if not row.keys() <= _KEYS:
        unused = health.setdefault("keys not used", [])
        unused += [name for key in row if key not in _KEYS and (name := f"{path.name}: {key}") not in unused]


def _texts(path: Path, noun: str, health: dict, faults: Faults) -> Iterator[tuple[str, str]]:
    """Id and text of every row, once each; the same id with another text is a fault.

    Texts are compared by a 64-bit hash: of 60,000, two that differ share one by a chance of about 1e-10.
    """
    seen: dict[str, tuple[int, int]] = {}
    texts: set[int] = set()
    for number, row in objects(path, faults):
        _note_unused(path, row, health)
        lacking = [key for key in ("id", "text") if key not in row]
        for key in lacking:
            faults.add(path, number, no_key(key, row))
        if lacking:
            continue
        name, text = identifier(row["id"]), row["text"]
        _note_numeric(path, number, row, ("id",), health)
        if name is None:
            faults.add(path, number, f"'id' is {shown(row['id'])}; {IDENTIFIER} is wanted")
            continue
        if text is not None and not isinstance(text, str):
            faults.add(path, number, f"'text' is {shown(text)}; a string is wanted")
            continue
        if text and _units(text) > MAX_TEXT:
            faults.add(path, number, f"'text' has {_units(text):,} characters; Anserini reads at most {MAX_TEXT:,}")
            continue
        text = text or ""
        first, known = seen.setdefault(name, (number, hash(text)))
        if first != number:
            if known == hash(text):
                health.setdefault(f"{noun} given twice", []).append(name)
            else:
                faults.add(path, number, f"id {name!r} stands on line {first} already, with another text")
            continue
        health[noun] += 1
        if not text.strip(_JAVA_BLANK):
            health.setdefault(f"empty {noun}", []).append(name)
        elif known in texts:
            health.setdefault(f"{noun} with another's text", []).append(name)
        texts.add(known)
        yield name, text


def _units(text: str) -> int:
    """The length of a text as Java counts it: characters beyond U+FFFF are two."""
    return len(text) if len(text) <= MAX_TEXT // 2 else len(text.encode("utf-16-le")) // 2


def _convert_corpus(path: Path, docs: Path, health: dict, faults: Faults) -> set[str]:
    """Write Pyserini's {"id", "contents"} lines and return the ids."""
    identifiers = set()
    with docs.open("wb") as file:
        for name, text in _texts(path, "documents", health, faults):
            identifiers.add(name)
            file.write(orjson.dumps({"id": name, "contents": text}, option=orjson.OPT_APPEND_NEWLINE))
    return identifiers


def _read_queries(path: Path, health: dict, faults: Faults) -> dict[str, str]:
    return dict(_texts(path, "queries", health, faults))


def _read_judgements(path: Path, health: dict, faults: Faults) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    lines: dict[tuple[str, str], int] = {}
    for number, row in judgement_rows(path, faults):
        _note_unused(path, row, health)
        _note_numeric(path, number, row, ("q_id", "p_id"), health)
        judgement = judged(path, number, row, faults)
        if judgement is None:
            continue
        query, document, grade = judgement
        first = lines.setdefault((query, document), number)
        known = qrels.setdefault(query, {}).setdefault(document, grade)
        if first == number:
            health["judgements"] += 1
            health["relevant"] += grade > 0
        elif known == grade:
            health.setdefault("judgements given twice", []).append(f"{query} {document}")
        else:
            faults.add(
                path, number, f"query {query!r}, document {document!r}: judged {known} on line {first}, now {grade}"
            )
    return qrels
