"""What a footprint is, step by step

A Type-1 set gives every value one grade. Experts, sensors and data rarely agree on one grade, so
an Interval Type-2 set gives an interval: everything between a lower and an upper curve, the
footprint of uncertainty. This script opens the footprint of three rules from left to right and
follows what happens to the output.

What to see: with no footprint (left) every rule has one firing strength and the output is one
curve. As the footprint grows, every rule fires with an interval, and the exact Karnik-Mendel
reduction turns these intervals into the band of all outputs that they allow. The band is widest
where rules overlap and disagree, and vanishes where one rule is alone.
"""

import matplotlib.pyplot as plt
import torch

from deepfls.functional import interval_gaussian_grades, karnik_mendel

# %%
# Three rules for one input: y is about -1 near 2, about 2 near 5, about 0.5 near 8.
centers = torch.tensor([[2.0], [5.0], [8.0]])
outputs = torch.tensor([[-1.0], [2.0], [0.5]])  # (rules, outputs)
x = torch.linspace(0, 10, 301)[:, None]

# %%
figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained", sharex=True, sharey="row")
for column, (height, spread) in enumerate([(1.0, 0.0), (0.8, 0.15), (0.5, 0.35)]):
    grades = interval_gaussian_grades(
        x,
        centers,
        torch.full((3, 1), 1.2 - spread),  # lower widths
        torch.full((3, 1), 1.2 + spread),  # upper widths
        torch.full((3, 1), height),
    )
    lower, upper = (
        grades.lower[..., 0],
        grades.upper[..., 0],
    )  # one input, so the grade of a rule is its firing
    y_left, y_right = karnik_mendel(lower, upper, outputs.expand(len(x), 3, 1))
    top, bottom = axes[:, column]
    for rule, color in enumerate(["#0072B2", "#D55E00", "#009E73"]):
        top.fill_between(
            x[:, 0], lower[:, rule], upper[:, rule], color=color, alpha=0.35, linewidth=0
        )
        top.plot(x[:, 0], upper[:, rule], color=color, linewidth=1.5)
        bottom.plot(centers[rule], outputs[rule], "o", color=color)
    bottom.fill_between(
        x[:, 0], y_left[:, 0], y_right[:, 0], color="#666666", alpha=0.35, linewidth=0
    )
    bottom.plot(x[:, 0], (y_left + y_right)[:, 0] / 2, color="black", linewidth=1.5)
    top.set_title(
        "no footprint: Type-1" if spread == 0 else f"height {height}, widths 1.2 ± {spread}",
        fontsize=10,
    )
    bottom.set_xlabel("x")
    print(f"height {height}, spread {spread}: widest set {(y_right - y_left).max().item():.2f}")
axes[0, 0].set_ylabel("grade of the three rules")
axes[1, 0].set_ylabel("output, and its set")
figure.savefig("footprint.png")
