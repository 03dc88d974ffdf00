"""Line charts as SVG, written by hand: no library is needed."""

import math
from pathlib import Path

COLOURS = ("#1f4e9c", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 360, 70, 20, 40, 50


def draw(path: Path, title: str, x_label: str, y_label: str, series: dict[str, list[tuple]], logarithmic: bool) -> None:
    """`series`: by name, points (x, y, low, high) in order of x; a logarithmic y axis shows nothing at or below 0."""
    points = [point for line in series.values() for point in line if point[1] == point[1] and (point[1] > 0 or not logarithmic)]
    if not points:
        return
    low_x, high_x = min(point[0] for point in points), max(point[0] for point in points)
    if logarithmic:
        low_y = 10 ** math.floor(math.log10(min(point[1] for point in points)))
        high_y = 10 ** math.ceil(math.log10(max(point[3] for point in points)))
        high_y = max(high_y, low_y * 10)
        ticks = [low_y * 10**power for power in range(round(math.log10(high_y / low_y)) + 1)]
        share_y = lambda y: math.log(max(y, low_y) / low_y) / math.log(high_y / low_y)
    else:
        high_y = nice_above(max(point[3] for point in points))
        ticks = [high_y * part / 4 for part in range(5)]
        share_y = lambda y: y / high_y
    x = lambda value: LEFT + (WIDTH - LEFT - RIGHT) * ((value - low_x) / (high_x - low_x) if high_x > low_x else 0.5)
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(share_y(value), 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
             f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{x_label}</text>',
             f'<text x="{LEFT}" y="{TOP - 6}">{y_label}</text>']
    for tick in ticks:
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for value in sorted({point[0] for point in points}):
        parts.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{number(value)}</text>')
    for place, (name, line) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        shown = [point for point in line if point in points]
        parts.append(f'<polyline points="{" ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in shown)}" fill="none" '
                     f'stroke="{colour}" stroke-width="1.5"/>')
        for value, middle, low, high in shown:
            parts.append(f'<circle cx="{x(value):.1f}" cy="{y(middle):.1f}" r="2.5" fill="{colour}"/>'
                         f'<path d="M{x(value):.1f} {y(low):.1f}V{y(high):.1f}" stroke="{colour}"/>')
        parts.append(f'<text x="{LEFT + 10 + 130 * place}" y="{TOP + 12}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def nice_above(value: float) -> float:
    power = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= value)


def number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e4 else f"{value:g}"
