"""Other people's datasets -> R2MED's raw layout: BEIR's folders, and what ir_datasets knows."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from .artifacts import publish_folder
from .errors import BadInput, R2medError, UsageError, shown
from .jsonl import Faults, objects
from .paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE
from .trec import IDENTIFIER, identifier, read_qrels

IR_DATASETS = "ir_datasets:"
Rows = Iterable[dict]


def import_dataset(source: str, folder: Path, split: str = "test") -> dict[str, int]:
    """Write the dataset `source` into the new folder `folder`; the number of rows of each file.

    `source` is a folder in BEIR's layout (corpus.jsonl with _id, title and text; queries.jsonl; qrels/<split>.tsv), or
    `ir_datasets:` and an id. Queries without judgements in the split are left out, as BEIR's own tools do. Raises
    UsageError if `folder` exists or there is no such source, BadInput with every fault of the files.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already; name a new folder")
    if source.startswith(IR_DATASETS):
        documents, queries, judgements = _from_ir_datasets(source.removeprefix(IR_DATASETS))
    else:
        documents, queries, judgements = _from_beir(Path(source), split)
    counts = {}
    judgements = list(judgements)
    judged = {row["q_id"] for row in judgements}
    asked = [row for row in queries if row["id"] in judged]
    if not asked:
        raise BadInput(f"{source}: none of its queries has a judgement; do queries and qrels belong together?")
    with publish_folder(folder) as new:
        for name, rows in ((CORPUS_FILE, documents), (QUERY_FILE, asked), (QRELS_FILE, judgements)):
            counts[name] = _write(new / name, rows)
    return counts


def _write(path: Path, rows: Rows) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def _joined(title: object, text: object) -> str:
    """Title and text as one, which is how BEIR's flat collections are searched."""
    return f"{title or ''} {text or ''}".strip()


def _from_beir(folder: Path, split: str) -> tuple[Rows, Rows, Rows]:
    corpus, queries, qrels = folder / CORPUS_FILE, folder / "queries.jsonl", folder / "qrels" / f"{split}.tsv"
    lacking = [path for path in (corpus, queries, qrels) if not path.is_file()]
    if lacking:
        splits = ", ".join(sorted(path.stem for path in (folder / "qrels").glob("*.tsv")))
        hint = f"; splits here: {splits} (--split)" if splits else ""
        raise UsageError(f"{folder} is no dataset in BEIR's layout: {', '.join(map(str, lacking))} missing{hint}")
    documents = ({"id": name, "text": _joined(row.get("title"), row["text"])} for name, row in _beir_rows(corpus))
    topics = ({"id": name, "text": row["text"] or ""} for name, row in _beir_rows(queries))
    judgements = (
        {"q_id": query, "p_id": document, "score": grade}
        for query, judged in read_qrels(qrels).items()
        for document, grade in judged.items()
    )
    return documents, topics, judgements


def _beir_rows(path: Path) -> Iterator[tuple[str, dict]]:
    """Id and row of every line whose id is one, and whose texts are text or missing."""
    faults = Faults()
    for number, row in objects(path, faults):
        name = identifier(row.get("_id"))
        texts = [row.get("title"), row.get("text")]
        if not {"_id", "text"} <= row.keys():
            faults.add(path, number, f"keys _id and text are wanted (keys here: {', '.join(row) or 'none'})")
        elif name is None:
            faults.add(path, number, f"'_id' is {shown(row['_id'])}; {IDENTIFIER} is wanted")
        elif not all(text is None or isinstance(text, str) for text in texts):
            faults.add(path, number, f"'title' or 'text' is no text: {shown(texts)}")
        else:
            yield name, row
    faults.check()


def _from_ir_datasets(identifier: str) -> tuple[Rows, Rows, Rows]:
    try:
        import ir_datasets
    except ImportError as error:
        raise R2medError("ir_datasets is not installed: pip install ir_datasets") from error
    try:
        dataset = ir_datasets.load(identifier)
    except KeyError as error:
        raise UsageError(f"ir_datasets knows no dataset {identifier!r}") from error
    lacking = [name for name in ("docs", "queries", "qrels") if not getattr(dataset, f"has_{name}")()]
    if lacking:
        raise UsageError(f"{identifier} of ir_datasets has no {' and no '.join(lacking)}; name a subset that has")
    documents = ({"id": doc.doc_id, "text": doc.default_text()} for doc in dataset.docs_iter())
    queries = ({"id": query.query_id, "text": query.default_text()} for query in dataset.queries_iter())
    judgements = ({"q_id": r.query_id, "p_id": r.doc_id, "score": r.relevance} for r in dataset.qrels_iter())
    return documents, queries, judgements
