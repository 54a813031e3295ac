# SPDX-License-Identifier: MIT
"""Curves as SVG, by python3-matplotlib or, where it is missing, by gnuplot."""

import importlib.util
import os
import shutil
import subprocess

HEIGHT, WIDTH = 3.4, 5.6  # inches


class Chart:
    """One picture: series of points (x, y, least y, greatest y), on logarithmic axes if x is."""

    def __init__(self, name, title, x, y, logarithmic=False):
        self.name, self.title, self.x, self.y, self.logarithmic = name, title, x, y, logarithmic
        self.series = {}

    def add(self, label, point):
        self.series.setdefault(label, []).append(point)


def tool():
    """What can draw here; None: nothing."""
    if importlib.util.find_spec("matplotlib"):
        return "matplotlib"
    return "gnuplot" if shutil.which("gnuplot") else None


def draw(chart, folder, how):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, chart.name + ".svg")
    {"matplotlib": with_matplotlib, "gnuplot": with_gnuplot}[how](chart, path)
    return path


def with_matplotlib(chart, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = chart.name  # equal figures give equal files
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
    for label, points in chart.series.items():
        x, y, low, high = zip(*points)
        line, = axes.plot(x, y, marker="o", markersize=3, label=label)
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    if chart.logarithmic:
        axes.set_xscale("log")
    axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def with_gnuplot(chart, path):
    def quoted(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    # The points of each series twice: as a band, and as a line in it.
    lines = ["set terminal svg size 560,340 noenhanced background rgb 'white'", f"set output {quoted(path)}",
             f"set title {quoted(chart.title)}", f"set xlabel {quoted(chart.x)}", f"set ylabel {quoted(chart.y)}",
             "set yrange [0:*]", "set key top left", "set grid"]
    if chart.logarithmic:
        lines.append("set logscale x")
    for i, points in enumerate(chart.series.values()):
        lines += [f"$series{i} << end"] + [" ".join(map(repr, map(float, point))) for point in points] + ["end"]
    lines.append("plot " + ", ".join(
        f"$series{i} using 1:3:4 with filledcurves fs transparent solid 0.15 lc {i + 1} notitle,"
        f" $series{i} using 1:2 with linespoints pt 7 ps 0.4 lc {i + 1} title {quoted(label)}"
        for i, label in enumerate(chart.series)))
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)
