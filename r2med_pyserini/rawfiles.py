"""Where the three raw files of a dataset are, under the names and in the forms that are accepted.

R2MED's own are corpus.jsonl, query.jsonl and qrels.jsonl. Each may be gzipped (`.gz`), and the judgements may come as
`qrels.tsv` or `qrels.txt`: TREC's four columns, or BEIR's three with a header.
"""

from pathlib import Path

from .paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE

_ACCEPTED = {
    CORPUS_FILE: (CORPUS_FILE,),
    QUERY_FILE: (QUERY_FILE,),
    QRELS_FILE: (QRELS_FILE, "qrels.tsv", "qrels.txt"),
}


def locate(folder: Path) -> dict[str, Path]:
    """R2MED's name of a file -> the file that stands for it in `folder`; the nearest to R2MED's own form first."""
    found = {}
    for name, accepted in _ACCEPTED.items():
        candidates = [folder / f"{other}{ending}" for other in accepted for ending in ("", ".gz")]
        present = [path for path in candidates if path.is_file()]
        if present:
            found[name] = present[0]
    return found


def missing(folder: Path) -> list[str]:
    """The names of the files that `folder` lacks in any form."""
    found = locate(folder)
    return [name for name in _ACCEPTED if name not in found]
