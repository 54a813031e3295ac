# SPDX-License-Identifier: MIT
"""What a terminal showed, as one SVG that plays by itself: no script, no font and no picture from elsewhere.

Cells that show the same from one moment to another are one piece of text, if they stand side by side. A piece is there from its moment
on (a rule of CSS), and most are there to the end. Where nothing moves (prefers-reduced-motion, or a viewer without CSS animation)
the rules do not hold, and the last picture stands: what is not in it has no opacity but by its rule.
"""
from xml.sax.saxutils import escape

CELL, LINE, SIZE = 8.4, 19, 14  # of a character: width, height, size of the letters
EDGE, BAR = 14, 30  # around the text; the window's bar
BACK, FRAME, TEXT = '#16181d', '#4b5160', '#d7dae0'
COLOURS = {'black': '#5c6370', 'red': '#ff7b86', 'green': '#98d982', 'brown': '#e5c07b', 'blue': '#7cb7ff', 'magenta': '#d7a1f0',
           'cyan': '#6fd3dc', 'white': '#ffffff'}
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
STEP = 0.02  # seconds; moments nearer than that are one


def style_of(cell):
    """(colour, bold) of a cell."""
    return COLOURS.get(cell.fg.removeprefix('bright'), TEXT if cell.fg == 'default' else '#' + cell.fg), cell.bold


def pieces(frames, end):
    """(from, to, row, column, text, style): what stands where, and when. Spaces are nothing."""
    found = []
    n_rows, n_columns = len(frames[0][1]), len(frames[0][1][0])
    for y in range(n_rows):
        open_at = {}  # column: (since, cell)
        spans = {}  # (from, to): [(column, cell)]
        for at, rows, _ in [*frames, (end, None, None)]:
            for x in range(n_columns):
                cell = rows[y][x] if rows else None
                old = open_at.get(x)
                if old and old[1] == cell:
                    continue
                if old:
                    spans.setdefault((old[0], at), []).append((x, old[1]))
                    del open_at[x]
                if cell and cell.data.strip():
                    open_at[x] = (at, cell)
        for (since, until), cells in spans.items():
            cells.sort(key=lambda one: one[0])
            run = None
            for x, cell in cells:
                style = style_of(cell)
                # a space between two words of one moment does not part them
                gap = x - (run[1] + len(run[2])) if run else 0
                if run and run[3] == style and gap in (0, 1):
                    run[2] += ' ' * gap + cell.data
                else:
                    run = [y, x, cell.data, style]
                    found.append((since, until, run))
    return found


class Clock:
    """Moments as rules of CSS."""

    def __init__(self, length):
        self.length = length
        self.names = {}

    def percent(self, at):
        return f'{100 * at / self.length:.2f}'.rstrip('0').rstrip('.') + '%'

    def name(self, since, until):
        return self.names.setdefault((self.percent(since), self.percent(until) if until < self.length else None), f'k{len(self.names)}')

    def rules(self):
        for (since, until), name in self.names.items():
            off = f'{until}{{opacity:0}}' if until else ''
            yield f'@keyframes {name}{{0%{{opacity:{1 if since == "0%" else 0}}}{since}{{opacity:1}}{off}}}'


def merged(frames):
    """Without pictures that nobody could see, as the next one comes at once."""
    kept = []
    for frame in frames:
        if kept and frame[0] - kept[-1][0] < STEP:
            kept[-1] = (kept[-1][0], *frame[1:])
        else:
            kept.append(frame)
    return kept


def cursor_rules(frames, clock):
    moves, before = [], None
    for at, _, (y, x) in frames:
        if (y, x) != before:
            moves.append(f'{clock.percent(at)}{{transform:translate({x * CELL:.1f}px,{y * LINE}px)}}')
            before = (y, x)
    return f'@keyframes cursor{{{"".join(moves)}}}', before


def draw(frames, still, title, text):
    frames = merged(frames)
    length = frames[-1][0] + still
    clock = Clock(length)
    body = []
    for since, until, (y, x, words, (colour, bold)) in pieces(frames, length):
        name = clock.name(since, until)
        width = f' textLength="{len(words) * CELL:.1f}"' if len(words) > 1 else ''
        look = ('' if colour == TEXT else f' fill="{colour}"') + (' font-weight="bold"' if bold else '') + \
            ('' if until >= length else ' class="gone"')
        body.append(f'<text x="{x * CELL:.1f}" y="{y * LINE}" style="animation-name:{name}"{width}{look}>{escape(words)}</text>')
    moves, (y, x) = cursor_rules(frames, clock)
    columns = len(frames[0][1][0])
    rows = max(i + 1 for _, screen, at in frames for i, row in enumerate(screen) if at[0] == i or any(c.data.strip() for c in row))
    width, height = columns * CELL + 2 * EDGE, rows * LINE + BAR + 2 * EDGE
    return '\n'.join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img">',
        f'<title>{escape(title)}</title>', f'<desc>{escape(text)}</desc>',
        '<style>', f'text{{font:{SIZE}px {FONT};fill:{TEXT};white-space:pre;dominant-baseline:hanging}}'.replace(f'fill:{TEXT};', ''),
        '.gone{opacity:0}',
        '@media not (prefers-reduced-motion:reduce){'
        f'.play text{{animation-duration:{length:.2f}s;animation-timing-function:step-end;animation-iteration-count:infinite}}'
        f'.cursor{{animation:cursor {length:.2f}s step-end infinite}}}}',
        *clock.rules(), moves, '</style>',
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="9" fill="{BACK}" stroke="{FRAME}"/>',
        ''.join(f'<circle cx="{18 + 18 * i}" cy="16" r="5.5" fill="{FRAME}"/>' for i in range(3)),
        f'<g class="play" fill="{TEXT}" transform="translate({EDGE},{BAR + EDGE / 2:.0f})">',
        f'<rect class="cursor" width="{CELL}" height="{LINE - 2}" y="-1" fill="{TEXT}" fill-opacity="0.55"'
        f' style="transform:translate({x * CELL:.1f}px,{y * LINE}px)"/>',
        *body, '</g>', '</svg>', ''])
