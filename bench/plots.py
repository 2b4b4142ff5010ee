"""Diagrams of measurements, as SVG."""

import html
import math

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 460, 260, 76, 36, 300, 48
COLORS = "#1b6ca8", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#5c5c5c"
BAR, GAP, LEFT_OF_BARS = 9, 9, 220


class Canvas:
    """The parts of an image."""

    def __init__(self):
        self.parts = []

    def text(self, x, y, anchor, words, color="#222"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{html.escape(words)}</text>')

    def line(self, x1, y1, x2, y2, color="#ddd"):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>')

    def legend(self, x, names):
        for number, name in enumerate(names):
            self.text(x, TOP + 12 + 18 * number, "start", name, COLORS[number % len(COLORS)])

    def image(self, width, height):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" '
                f'font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


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
    canvas = Canvas()
    canvas.text(LEFT, TOP - 14, "start", f"{title}: {y_label}")
    for mark in up.marks():
        y = TOP + HEIGHT - up.at(mark)
        canvas.line(LEFT, y, LEFT + WIDTH, y)
        canvas.text(LEFT - 6, y + 4, "end", name_of_y(mark))
    for mark in across.marks():
        x = LEFT + across.at(mark)
        canvas.line(x, TOP, x, TOP + HEIGHT)
        canvas.text(x, TOP + HEIGHT + 16, "middle", name_of_x(mark))
    canvas.text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, "middle", x_label)
    for number, each in enumerate(series.values()):
        path = " ".join(f"{LEFT + across.at(x):.1f},{TOP + HEIGHT - up.at(y):.1f}" for x, y in each)
        canvas.parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[number % len(COLORS)]}" stroke-width="1.5"/>')
    canvas.legend(LEFT + WIDTH + 12, series)
    return canvas.image(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM)


def step_of(largest):
    """Returns the distance of the marks of an axis from zero to `largest`: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (0.1, 0.2, 0.5, 1, 2) if largest / (step * power) <= 6)


def bars(title, x_label, groups, base=None):
    """Returns an SVG image with horizontal bars in groups: {group: {name: (value, spread)}}. A line around the end of a bar is as long as the
    spread on each side. The axis is linear and begins at zero. A dark line marks `base`, if it is given."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    largest = max(value + spread for group in groups.values() for value, spread in group.values())
    step = step_of(largest)
    marks = [step * number for number in range(math.ceil(largest / step) + 1)]
    scale = WIDTH / marks[-1]
    height = sum(BAR * len(group) + GAP for group in groups.values()) + GAP
    canvas = Canvas()
    canvas.text(LEFT_OF_BARS, TOP - 14, "start", title)
    for mark in marks:
        x = LEFT_OF_BARS + scale * mark
        canvas.line(x, TOP, x, TOP + height)
        canvas.text(x, TOP + height + 16, "middle", f"{mark:,.10g}")
    canvas.text(LEFT_OF_BARS + WIDTH / 2, TOP + height + 36, "middle", x_label)
    y = TOP + GAP
    for title_of_group, group in groups.items():
        canvas.text(LEFT_OF_BARS - 6, y + BAR * len(group) / 2 + 4, "end", title_of_group)
        for name, (value, spread) in group.items():
            color = COLORS[names.index(name) % len(COLORS)]
            canvas.parts.append(f'<rect x="{LEFT_OF_BARS}" y="{y:.1f}" width="{scale * value:.1f}" height="{BAR - 1}" fill="{color}"/>')
            canvas.line(LEFT_OF_BARS + scale * max(value - spread, 0), y + BAR / 2 - 0.5, LEFT_OF_BARS + scale * (value + spread), y + BAR / 2 - 0.5, "#222")
            y += BAR
        y += GAP
    if base is not None and base <= marks[-1]:
        canvas.line(LEFT_OF_BARS + scale * base, TOP, LEFT_OF_BARS + scale * base, TOP + height, "#222")
    canvas.legend(LEFT_OF_BARS + WIDTH + 12, names)
    return canvas.image(LEFT_OF_BARS + WIDTH + RIGHT, max(TOP + height + BOTTOM, TOP + 18 * len(names) + BOTTOM))
