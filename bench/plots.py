"""Diagrams of measurements, as SVG."""

import html
import math

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 460, 260, 76, 36, 300, 48
COLORS = "#1b6ca8", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#5c5c5c"


class Axis:
    """A logarithmic axis between powers of ten, over `length` pixels."""

    def __init__(self, values, length):
        self.first = math.floor(math.log10(min(values)))
        self.last = max(math.ceil(math.log10(max(values))), self.first + 1)
        self.length = length

    def at(self, value):
        return self.length * (math.log10(value) - self.first) / (self.last - self.first)

    def marks(self):
        return [10.0 ** power for power in range(self.first, self.last + 1)]


def lines(title, x_label, y_label, series, name_of_x=lambda x: f"{x:g}", name_of_y=lambda y: f"{y:g}"):
    """Returns an SVG image with a line for each of `series`: {name: [(x, y), ...]}, with numbers above zero. Both axes are logarithmic."""
    points = [point for each in series.values() for point in each]
    across, up = Axis([x for x, _ in points], WIDTH), Axis([y for _, y in points], HEIGHT)
    parts = []

    def text(x, y, anchor, words, color="#222"):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{html.escape(words)}</text>')

    def line(x1, y1, x2, y2):
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>')

    text(LEFT, TOP - 14, "start", f"{title}: {y_label}")
    for mark in up.marks():
        y = TOP + HEIGHT - up.at(mark)
        line(LEFT, y, LEFT + WIDTH, y)
        text(LEFT - 6, y + 4, "end", name_of_y(mark))
    for mark in across.marks():
        x = LEFT + across.at(mark)
        line(x, TOP, x, TOP + HEIGHT)
        text(x, TOP + HEIGHT + 16, "middle", name_of_x(mark))
    text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, "middle", x_label)
    for number, (name, each) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        path = " ".join(f"{LEFT + across.at(x):.1f},{TOP + HEIGHT - up.at(y):.1f}" for x, y in each)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        text(LEFT + WIDTH + 12, TOP + 12 + 18 * number, "start", name, color)
    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")
