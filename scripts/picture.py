"""Draw a command and what it printed as an SVG: `r2med report --suite mini | python scripts/picture.py "make demo"`."""

import sys
from html import escape

WIDTH, HEIGHT, MARGIN = 7.85, 18, 20  # of a character, of a line, around everything; in pixels
COLOURS = {"OK": "#4ec27a", "FAIL": "#ff6b6b", "NEW": "#7aa2f7", "MISSING": "#e0af68", "OKish": "#e0af68"}


def draw(command: str, text: str) -> str:
    """The picture; verdicts at the ends of lines are coloured."""
    lines = [f"$ {command}", "", *text.rstrip("\n").split("\n")]
    width = max(map(len, lines)) * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img">',
        f"<title>{escape(command)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#1a1b26"/>',
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono, monospace" font-size="13" '
        'fill="#d5d9e8" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        body, _, last = line.rpartition(" ")
        shown = escape(line)
        if last in COLOURS:
            shown = f'{escape(body)} <tspan fill="{COLOURS[last]}">{last}</tspan>'
        parts.append(f'<text x="{MARGIN}" y="{MARGIN + HEIGHT * (number + 0.75):.1f}">{shown}</text>')
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(draw(" ".join(sys.argv[1:]), sys.stdin.read()))
