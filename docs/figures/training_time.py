"""Draw training time against the number of rules: T1, ours, the paper's fKM and the classic algorithm.

Real training steps of the paper's protocol on its largest set (batch 512, 4 inputs), one thread, the fastest of a few
repeats. ``python docs/figures/training_time.py --data-dir DIR`` writes training_time.png into the folder of this script.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deepfls.data.datasets import load_dataset
from deepfls.inspection import COLORS, new_figure

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import _protocol as protocol

RULES = (2, 5, 10, 15, 20, 50, 100, 200, 500, 1000)
# label, color, largest number of rules, real steps timed
SYSTEMS = {
    "t1": ("T1", COLORS[6], 1000, 13),
    "it2": ("IT2, exact KM (deepfls)", COLORS[0], 1000, 13),
    "it2-km": ("IT2, classic KM, sample by sample", COLORS[2], 1000, 2),
    "it2-fkm": ("IT2, the paper's fKM, $2^P$ choices", COLORS[1], 15, 2),
}


def measure(data_dir: str | None, repeats: int = 3) -> dict[str, list[tuple[int, float]]]:
    """Milliseconds per training step of every system, by number of rules."""
    split = protocol.protocol_split(load_dataset("ccpp", data_dir=data_dir), seed=0)
    protocol.warm_up()
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in SYSTEMS}
    for rules in RULES:
        for name, (_, _, most, steps) in SYSTEMS.items():
            if rules <= most:
                runs = [protocol.run("ccpp", split, rules, name, 0, timed_steps=steps) for _ in range(repeats)]
                found[name].append((rules, 1000 * min(run.seconds / run.steps for run in runs)))
    return found


def draw(found: dict[str, list[tuple[int, float]]], path: Path) -> None:
    figure = new_figure(7.5, 4.2)
    ax = figure.subplots()
    for name, points in found.items():
        text, color, _, _ = SYSTEMS[name]
        rules, milliseconds = zip(*points, strict=True)
        ax.plot(rules, milliseconds, color=color, marker="o", markersize=4, label=text)
    ax.set(xscale="log", yscale="log", xlabel="rules", ylabel="ms per training step, one thread")
    ax.set_xticks(RULES, [f"{rules:,}" for rules in RULES])
    ax.minorticks_off()
    ax.set_ylim(0.1, 2000)  # room for the legend above the lines
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.legend(frameon=False)
    ax.set_title("One training step, batch of 512, 4 inputs", loc="left", fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".png"))
    arguments = parser.parse_args()
    found = measure(arguments.data_dir)
    for name, points in found.items():
        print(name, ", ".join(f"{rules}: {milliseconds:.2f} ms" for rules, milliseconds in points))
    draw(found, arguments.out)


if __name__ == "__main__":
    main()
