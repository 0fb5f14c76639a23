"""Plots as SVG to stand inside a page: the same data give the same bytes, with the same matplotlib.

Each has a title and a description for those who cannot see it, and text that is text: it can be read out, searched, and
takes the page's font and colours, in light and dark. Colours are named by the variables that `COLOURS` sets; no plot
tells by colour alone.
"""

import io
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..significance import gain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn in these, which matplotlib takes; in the page each is what the style sheet says. Contrasts are 3:1 and more.
_INK, _SOFT, _LINE = "#010101", "#020202", "#030303"
_SERIES = tuple(f"#0{number}0404" for number in range(8))
_PAGE = {_INK: "var(--ink)", _SOFT: "var(--soft)", _LINE: "var(--line)"}
_PAGE |= {colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES)}
# Okabe and Ito's, which the colour-blind tell apart, darkened for light pages.
_PALETTE = (
    ("#0072b2", "#56b4e9"), ("#b84c00", "#f0954b"), ("#007a5a", "#2fc79b"), ("#a3487c", "#e08bbb"),
    ("#8a6d00", "#e3c43a"), ("#3f5fbf", "#9db4ff"), ("#6b6b6b", "#b5b5b5"), ("#a8271f", "#ff9c94"),
)  # fmt: skip
COLOURS = "".join(f"--series-{number}:light-dark({light},{dark});" for number, (light, dark) in enumerate(_PALETTE))
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_MARKERS = "osD^vXP*"
_BETTER, _WORSE, _EVEN = _SERIES[0], _SERIES[1], _SERIES[6]
_SIZES = ((1, 2, 4.5), (2, 5, 6), (5, 20, 8), (20, 10**9, 11))  # of points for so many queries

_WIDTH = 4.6  # inches, of 96 pixels in a page
_LONGEST = 34  # characters of a name
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "r2med", "text.parse_math": False, "font.size": 8.5,
    "text.color": _INK, "axes.edgecolor": _SOFT, "axes.labelcolor": _SOFT, "xtick.color": _SOFT, "ytick.color": _SOFT,
    "xtick.labelcolor": _INK, "ytick.labelcolor": _INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.facecolor": "none", "figure.facecolor": "none", "grid.color": _LINE, "grid.linewidth": 0.8,
    "axes.axisbelow": True, "legend.frameon": False, "hatch.color": _INK, "hatch.linewidth": 0.6,
}  # fmt: skip
_GEOMETRY = ("d", "x", "y", "width", "height", "transform")
_LONG_NUMBER = re.compile(r"-?[0-9]+\.[0-9]{3,}")
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def available() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


def bars(
    key: str,
    title: str,
    measure: str,
    values: Mapping[str, float],
    references: Mapping[str, Mapping[str, float]],
    baseline: str | None = None,
) -> str:
    """A bar a condition; hatched that of the baseline. `references` maps "published" and "recorded" to known figures.

    `key`, here as everywhere, is a word that tells this plot's ids from those of all others in the page.
    """
    names = list(values)
    largest = max([*values.values(), *(value for known in references.values() for value in known.values())])
    told = [f"{name} {value:.4f}" for name, value in values.items()]
    told += [f"{kind} for {name} {value:.4f}" for kind, known in references.items() for name, value in known.items()]

    def draw(axes: "Axes") -> None:
        drawn = axes.barh(range(len(names)), list(values.values()), height=0.62, color=_SERIES[0])
        if baseline in names:
            drawn[names.index(baseline)].set(hatch="////", facecolor="none", edgecolor=_SERIES[0])
        for place, value in enumerate(values.values()):
            axes.annotate(f"{value:.4f}", (value, place), (7, 0), textcoords="offset points", va="center", fontsize=7.5)
        for (kind, known), marker in zip(references.items(), ("D", "|"), strict=False):
            points = [(value, names.index(name)) for name, value in known.items() if name in values]
            if points:
                size = {"D": 22, "|": 130}[marker]
                edge = {"edgecolor": _INK, "facecolor": "none"} if marker == "D" else {"color": _INK}
                axes.scatter(*zip(*points, strict=True), s=size, marker=marker, label=kind, zorder=3, **edge)
        axes.set(xlabel=measure, xlim=(0, 1.2 * (largest or 1)), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticks(range(len(names)), [_cut(name) for name in names])
        axes.grid(axis="x")
        _legend(axes)

    return _svg(key, title, f"{measure}: {'; '.join(told)}.", draw, 0.75 + 0.27 * len(names))


def recall(key: str, title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Recall at every rank from 1, on a logarithmic scale: a line a condition."""
    deepest = max(len(curve) for curve in curves.values())
    told = [f"{name} rises from {curve[0]:.4f} to {curve[-1]:.4f} at {len(curve):,}" for name, curve in curves.items()]

    def draw(axes: "Axes") -> None:
        for number, (name, curve) in enumerate(curves.items()):
            places = [rank for rank in _ranks(deepest) if rank <= len(curve)]
            axes.plot(
                places,
                [curve[rank - 1] for rank in places],
                color=_SERIES[number % len(_SERIES)],
                linestyle=_DASHES[number // len(_SERIES) % len(_DASHES)],
                marker=_MARKERS[number % len(_MARKERS)],
                markevery=(number * 2 % 9, 9),
                markersize=4.5,
                linewidth=1.6,
                label=_cut(name),
            )
        ticks = [rank for rank in (1, 10, 100, 1_000, 10_000, 100_000) if rank <= deepest]
        axes.set_xscale("log")
        axes.set(xlabel="rank k", ylabel="R@k", xlim=(0.9, max(deepest, 2) * 1.1), ylim=(-0.02, 1.02))
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.grid()
        _legend(axes, columns=1 if max(map(len, curves)) > _LONGEST // 2 else 2)

    rows = len(curves) if max(map(len, curves)) > _LONGEST // 2 else -(-len(curves) // 2)
    return _svg(key, title, f"Mean recall: {'; '.join(told)}.", draw, 2.9 + 0.18 * rows)


def _ranks(deepest: int) -> list[int]:
    """Ranks at which a curve is drawn: enough for the eye, evenly spaced on a logarithmic scale."""
    steps = 20
    found = {round(10 ** (step / steps)) for step in range(6 * steps)}
    return sorted({rank for rank in found if rank <= deepest} | {deepest})


def scatter(key: str, title: str, measure: str, a: str, b: str, scores: Sequence[tuple[float, float]]) -> str:
    """The scores of A over those of B, a point a query; queries that lie together make one larger point."""
    counts = Counter((_sign(gain(ours, theirs)), round(theirs, 2), round(ours, 2)) for ours, theirs in scores)
    better, worse = (sum(number for place, number in counts.items() if place[0] == sign) for sign in (1, -1))

    def draw(axes: "Axes") -> None:
        axes.plot((0, 1), (0, 1), color=_SOFT, linewidth=0.8)
        for sign, marker, colour in ((0, "o", _EVEN), (1, "^", _BETTER), (-1, "v", _WORSE)):
            for least, most, size in _SIZES:
                points = [place[1:] for place, number in counts.items() if place[0] == sign and least <= number < most]
                if points:
                    look = {"color": colour, "alpha": 0.8, "markeredgewidth": 0, "markersize": size}
                    axes.plot(*zip(*points, strict=True), linestyle="none", marker=marker, **look)
        limits = (-0.03, 1.03)
        axes.set(xlabel=f"{measure} of {_cut(b)}", ylabel=f"{measure} of {_cut(a)}", xlim=limits, ylim=limits)
        axes.set_aspect("equal")
        axes.grid()

    told = f"{len(scores):,} queries: {a} is better on {better:,} (above the line), worse on {worse:,} (below it)."
    return _svg(key, title, told, draw, 3.6)


def gains(key: str, title: str, measure: str, differences: Sequence[float]) -> str:
    """What every query gains or loses, largest gain first: bars side by side."""
    ordered = sorted(differences, reverse=True)
    better, worse = sum(value > 0 for value in ordered), sum(value < 0 for value in ordered)

    def draw(axes: "Axes") -> None:
        for low, high, colour in ((0, better, _BETTER), (len(ordered) - worse, len(ordered), _WORSE)):
            if high > low:
                axes.stairs(ordered[low:high], range(low, high + 1), fill=True, color=colour)
        axes.axhline(0, color=_SOFT, linewidth=0.8)
        largest = max(0.05, *map(abs, ordered)) * 1.08
        axes.set(xlabel="queries", ylabel=f"difference in {measure}", xlim=(0, len(ordered)), ylim=(-largest, largest))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y")

    told = f"{better:,} queries gain, at most {max(ordered):+.4f}; {worse:,} lose, at most {min(ordered):+.4f};"
    return _svg(key, title, f"{told} {len(ordered) - better - worse:,} stay as they are.", draw, 2.4)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _legend(axes: "Axes", columns: int = 2) -> None:
    """A legend under the plot, if there is something to tell."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.figure.legend(handles, labels, loc="outside lower left", ncols=columns, handlelength=3)


@contextmanager
def _matplotlib():
    """Matplotlib as it is by default, whatever its user has configured, with our style."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns where it cannot write to the home folder, which is none of a report's
    try:
        import matplotlib

        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE)
            yield
    finally:
        logger.setLevel(level)


def _svg(key: str, title: str, description: str, draw: Callable[["Axes"], None], height: float) -> str:
    with _matplotlib():
        from matplotlib.figure import Figure

        figure, written = Figure(figsize=(_WIDTH, height), layout="constrained"), io.StringIO()
        draw(figure.add_subplot())
        figure.savefig(written, format="svg", metadata={"Date": None})
    return _inline(written.getvalue(), key, title, description)


def _inline(svg: str, key: str, title: str, description: str) -> str:
    """An SVG file as an element of a page: ids of its own, the page's colours and font, title and description."""
    root = ElementTree.fromstring(svg)
    for part in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(part)
    for above in list(root.iter()):
        for style in above.findall(f"{{{_SVG}}}style"):  # its rules would hold for the whole page
            above.remove(style)
    used = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", svg))
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in used:
            element.set("id", f"{key}-{name}")
        link = element.attrib.pop(f"{{{_XLINK}}}href", None)
        if link:
            element.set("href", f"#{key}-{link[1:]}")
        for attribute, value in element.attrib.items():
            if attribute in ("clip-path", "style"):
                element.set(attribute, _restyled(value, key))
            elif attribute in _GEOMETRY:
                element.set(attribute, _LONG_NUMBER.sub(_shorter, value))
        element.text, element.tail = ((text or "").strip() or None for text in (element.text, element.tail))
    names = {word: f"{key}-{word}" for word in ("title", "desc")}
    for place, (word, text) in enumerate((("title", title), ("desc", description))):
        part = ElementTree.Element(f"{{{_SVG}}}{word}", id=names[word])
        part.text = text
        root.insert(place, part)
    root.set("role", "img")
    root.set("aria-labelledby", " ".join(names.values()))
    root.set("style", f"{COLOURS}font-family:var(--sans);stroke-linejoin:round;stroke-linecap:butt")
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _restyled(text: str, key: str) -> str:
    text = text.replace("url(#", f"url(#{key}-")
    for drawn, wanted in _PAGE.items():
        text = text.replace(drawn, wanted)
    text = re.sub(r"font-family: [^;]+(; |$)", "", text)
    return re.sub(r"font: ([0-9.]+px) [^;]+", r"font-size: \1", text)  # so older versions of matplotlib say it


def _shorter(number: re.Match) -> str:
    return f"{float(number.group()):.2f}".rstrip("0").rstrip(".")
