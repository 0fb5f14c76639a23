"""Time and memory of fusing runs, beside other ways to do it: `python benchmarks/fusion.py`.

Runs of R2MED's sizes are made first: for each of its 876 queries, three rankings of 1,000 documents, which share about
half of them. Every system then reads the runs of the eight datasets, fuses them, and writes the results, in one process
of its own: r2med, pyserini.fusion, and ranx if it is installed. Cold is the first process, for which ranx has nothing
compiled yet; warm is a second one. A line tells the processor time of every step; peak memory is the resident memory of
the process. It is checked that r2med ranks as Pyserini does; the exit status is 1 if not.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from figures import Row, disturbance, machine, sentence, table
from lexical import Bench, say

SYSTEMS = ("r2med", "pyserini", "ranx")
METHODS = ("rrf", "combsum")  # reciprocal ranks; sums of min-max normalized scores
RUNS, HITS, POOL, SEED = 3, 1000, 4000, 20250601
LEAST = 0.99  # the last of a ranking may be another where it ties
Steps = tuple[Callable, Callable, Callable]  # read(paths) -> runs; fuse(runs) -> result; write(result, path)


def make(folder: Path, share: float) -> None:
    """Write the runs, of that share of the queries. The same share gives the same bytes."""
    import numpy as np

    from r2med_pyserini import trec
    from r2med_pyserini.paths import Workspace
    from r2med_pyserini.suites import load_suite

    rng = np.random.default_rng(SEED)
    for dataset in load_suite("r2med", Workspace(folder)).datasets:
        runs = [[] for _ in range(RUNS)]
        for number in range(max(1, round(dataset.queries * share))):
            pool = np.sort(rng.choice(dataset.documents, POOL, replace=False))
            signal = rng.normal(size=POOL)
            for run in runs:
                scores = np.round(20 + 5 * (signal + rng.normal(size=POOL)), 4)
                best = np.argsort(-scores, kind="stable")[:HITS]
                names = [f"{dataset.slug}-{document:06d}" for document in pool[best].tolist()]
                run.append((f"{dataset.slug}-q{number:03d}", names, scores[best].tolist()))
        (folder / dataset.slug).mkdir(parents=True)
        for number, run in enumerate(runs):
            trec.write_run(folder / dataset.slug / f"run{number}.txt", run)


def r2med(method: str) -> Steps:
    """What `fuse_files` does, step by step."""
    from r2med_pyserini import trec
    from r2med_pyserini.composites import FusionSpec
    from r2med_pyserini.fusion import fuse

    settings = {"k": 60.0} if method == "rrf" else {"normalization": "min-max"}
    spec = FusionSpec(method, tuple(map(str, range(RUNS))), hits=HITS, **settings)
    return (
        lambda paths: [trec.read_run(path) for path in paths],
        lambda runs: list(fuse(runs, spec)),
        lambda fused, path: trec.write_run(path, fused, f"r2med-{method}", trec.EXACT_SCORE),
    )


def pyserini(method: str) -> Steps:
    """What `python -m pyserini.fusion` does, for all datasets in one process."""
    import warnings

    warnings.simplefilter("ignore", SyntaxWarning)
    from pyserini.fusion import normalize, reciprocal_rank_fusion
    from pyserini.trectools import TrecRun

    fusing = reciprocal_rank_fusion if method == "rrf" else normalize
    return (
        lambda paths: [TrecRun(str(path)) for path in paths],
        lambda runs: fusing(runs, depth=HITS, k=HITS),
        lambda fused, path: fused.save_to_txt(str(path), tag="pyserini"),
    )


def ranx(method: str) -> Steps:
    """Its documented way from files to a file; it does not cut the result at a number of hits."""
    from ranx import Run, fuse

    settings = {"norm": None, "method": "rrf"} if method == "rrf" else {"norm": "min-max", "method": "sum"}
    return (
        lambda paths: [Run.from_file(str(path), kind="trec") for path in paths],
        lambda runs: fuse(runs, **settings),
        lambda fused, path: fused.save(str(path), kind="trec"),
    )


def work(system: str, method: str, folder: Path) -> None:
    """Fuse all datasets, and print the processor time of every step."""
    clock = [time.process_time()]
    read, fuse, write = {"r2med": r2med, "pyserini": pyserini, "ranx": ranx}[system](method)
    clock.append(time.process_time())
    spent = [clock[1] - clock[0], 0, 0, 0]
    for dataset in sorted(folder.iterdir()):
        clock = [time.process_time()]
        runs = read(sorted(dataset.glob("run*.txt")))
        clock.append(time.process_time())
        fused = fuse(runs)
        clock.append(time.process_time())
        write(fused, dataset / f"{system}.txt")
        clock.append(time.process_time())
        for step in (1, 2, 3):
            spent[step] += clock[step] - clock[step - 1]
    steps = zip(("import", "read", "fuse", "write"), spent, strict=True)
    print(", ".join(f"{step} {seconds:.2f} s" for step, seconds in steps))


def agreement(folder: Path) -> float:
    """The share of queries for which r2med ranks as Pyserini, where ties in single precision are ordered by id."""
    import numpy as np

    from r2med_pyserini.trec import read_run

    same = []
    for ours in sorted(folder.glob("*/r2med.txt")):
        theirs = read_run(ours.with_name("pyserini.txt"))
        for query, hits in read_run(ours).items():
            rounded = {document: np.float32(score) for document, score in theirs[query].items()}
            same.append(list(hits) == sorted(rounded, key=lambda document: (-rounded[document], document)))
    return sum(same) / len(same)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="only these")
    parser.add_argument("--method", choices=METHODS, default=METHODS[0], help="how to fuse (default: rrf)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the queries, to try the benchmark out")
    parser.add_argument("--part", choices=("make", *SYSTEMS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.part == "make":
        make(arguments.folder, arguments.share)
        return
    if arguments.part:
        work(arguments.part, arguments.method, arguments.folder)
        return
    systems = [name for name in arguments.systems if name != "ranx" or importlib.util.find_spec("ranx")]
    load, rows = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory(prefix="r2med-fusion-") as place:
        bench, folder = Bench(Path(place), [], 1, Path(place)), Path(place) / "runs"
        os.environ["NUMBA_CACHE_DIR"] = str(bench.work / "compiled")
        command = (sys.executable, str(Path(__file__)), "--method", arguments.method, "--folder", str(folder), "--part")
        subprocess.run([*command, "make", "--share", str(arguments.share)], check=True)
        for system in systems:
            costs = []
            for start in ("cold", "warm"):
                costs.append(bench.measure(f"{system} {start}", (*command, system), bench.work))
                say(f"  {(bench.work / 'log.txt').read_text(encoding='utf-8').strip()}")
            rows.append(Row(system, *costs, "r2med" if "r2med" in systems else None))
        share = agreement(folder) if {"r2med", "pyserini"} <= set(systems) else None
    facts = machine(1, load)
    if "ranx" in systems:
        facts["versions"]["ranx"] = importlib.metadata.version("ranx")
    print(f"{table(rows)}\n\nMethod: {arguments.method}. {sentence(facts)}{disturbance(rows)}")
    if share is not None:
        print(f"{share:.2%} of the rankings of r2med are Pyserini's, ties in single precision aside.")
        if share < LEAST:
            sys.exit("the systems disagree: their times are worth nothing")


if __name__ == "__main__":
    main()
