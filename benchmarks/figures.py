"""Figures of the benchmarks, and the machine that they depend on."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "r2med-pyserini", "pyserini", "gensim", "bm25s", "numpy", "torch", "transformers", "sentence-transformers",
    "onnxruntime", "faiss-cpu",
)  # fmt: skip
DISTURBED = 0.05


@dataclass(frozen=True)
class Cost:
    """What one or more processes took, run one after another.

    Seconds by the clock and of processor time, peak MiB, and the processor time that all else on the machine took
    meanwhile.
    """

    seconds: float
    cpu: float
    memory: float
    others: float

    def __add__(self, other: "Cost") -> "Cost":
        times = (self.seconds + other.seconds, self.cpu + other.cpu)
        return Cost(*times, max(self.memory, other.memory), self.others + other.others)


NOTHING = Cost(0, 0, 0, 0)


@dataclass(frozen=True)
class Row:
    """A line of the table; `against` names the line of ours that does the same work."""

    system: str
    cold: Cost | None
    warm: Cost | None
    against: str | None = None

    @property
    def memory(self) -> float:
        """The larger peak of the two."""
        return max(cost.memory for cost in (self.cold, self.warm) if cost)


def busy() -> float:
    """Seconds of processor time that the whole machine has used so far; 0 where Linux's /proc is not there."""
    try:
        user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text(encoding="utf-8").split()[1:9]
    except OSError:
        return 0.0
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")


def disturbance(rows: list[Row]) -> str:
    """A warning, where other processes took more than DISTURBED of the processors; empty if none did."""
    named = []
    for row in rows:
        cost = (row.cold or NOTHING) + (row.warm or NOTHING)
        share = cost.others / (cost.seconds * os.cpu_count())
        if share > DISTURBED and cost.others > 0.1:  # the kernel counts in hundredths of a second
            named.append(f"{row.system} {share:.0%}")
    warning = "\n\nDo not trust these times: other processes took a share of the processors meanwhile: "
    return f"{warning}{'; '.join(named)}." if named else ""


def table(rows: list[Row]) -> str:
    """The Markdown table."""
    ours = {row.system: row for row in rows if row.against == row.system}
    lines = [
        "| system | cold s | warm s | peak memory MiB | cold / ours | warm / ours |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        mine = ours.get(row.against)
        seconds = [f"{cost.seconds:.2f}" if cost else "-" for cost in (row.cold, row.warm)]
        pairs = ((row.cold, mine.cold), (row.warm, mine.warm)) if mine else ()
        ratios = [f"{cost.seconds / own.seconds:.1f}" for cost, own in pairs] or ["-", "-"]
        lines.append(f"| {' | '.join((row.system, *seconds, f'{row.memory:,.0f}', *ratios))} |")
    return "\n".join(lines)


def machine(threads: int, load: float) -> dict:
    """What the figures depend on; `load` is the machine's load average before anything was measured."""
    from importlib.metadata import PackageNotFoundError, version

    from r2med_pyserini.jvm import anserini_version, find_java

    versions = {"Python": platform.python_version(), "Java": find_java().version, "Anserini": anserini_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    cpu, information = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if information.is_file():
        lines = (line.partition(":") for line in information.read_text(encoding="utf-8").splitlines())
        cpu = next((value.strip() for key, _, value in lines if key.strip() == "model name"), cpu)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": threads,
        "load": round(load, 1),
        "memory GiB": round(memory, 1),
        "versions": versions,
    }


def sentence(facts: dict) -> str:
    """The line about the machine."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    parts = (facts["cpu"], f"{facts['cores']} cores, {facts['threads']} threads", f"load {facts['load']} at the start")
    return f"{', '.join(parts)}, {facts['memory GiB']} GiB; {versions}."
