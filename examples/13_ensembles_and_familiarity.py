"""Several systems as one, and rows that are like nothing seen before

One fuzzy system depends on where it started. Several systems from different starts, averaged,
depend on it less: `n_systems=8` trains them side by side and predicts with their mean. But no
model knows anything far from its data, and `familiarity` says so: it is near 1 for rows like the
training rows, and near 0 for rows that no rule has ever seen.

What to see: thin lines are single systems, the thick one is the mean of eight. They agree where
there are data, and part in the gap. The familiarity below falls in the gap and on both sides: the
further it falls, the more a prediction is a guess. The gap and the noise were chosen to show this;
what several systems gain on real tables is in RESULTS.md.
"""

import matplotlib.pyplot as plt
import numpy as np

from deepfls import FLSRegressor

# %%
random = np.random.default_rng(0)
x = np.concatenate([random.uniform(-4, -1.5, 40), random.uniform(1, 4, 40)])[:, None]
y = np.sin(1.5 * x[:, 0]) + 0.3 * x[:, 0] + random.normal(0, 0.4, len(x))
settings = {"kind": "t1", "n_rules": 10, "epochs": 100}
mean = FLSRegressor(**settings, n_systems=8, random_state=0).fit(x, y)
singles = [FLSRegressor(**settings, random_state=seed).fit(x, y) for seed in range(1, 6)]

# %%
grid = np.linspace(-7, 7, 400)[:, None]
truth = np.sin(1.5 * grid[:, 0]) + 0.3 * grid[:, 0]
inside = np.abs(grid - x[:, 0]).min(axis=1) < 0.1  # near a training row
for name, models in (("single systems", singles), ("eight systems as one", [mean])):
    errors = [np.sqrt(np.mean((m.predict(grid) - truth)[inside] ** 2)) for m in models]
    print(f"{name:21} error where there are data: {np.mean(errors):.3f}")

# %%
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(8, 5), layout="constrained", sharex=True, height_ratios=[2.5, 1]
)
for single in singles:
    top.plot(grid[:, 0], single.predict(grid), color="#56B4E9", linewidth=0.9)
top.plot(
    grid[:, 0], mean.predict(grid), color="#0072B2", linewidth=2.2, label="eight systems as one"
)
top.plot([], [], color="#56B4E9", linewidth=0.9, label="single systems")
top.scatter(x[:, 0], y, s=8, color="#444444", alpha=0.6, label="training rows")
top.set(ylabel="y", ylim=(-3, 3))
top.legend(frameon=False, ncols=3, loc="upper center")
bottom.fill_between(grid[:, 0], mean.familiarity(grid), color="#009E73", alpha=0.5, linewidth=0)
bottom.set(xlabel="x", ylabel="familiarity", ylim=(0, 1.05))
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
figure.savefig("ensembles_and_familiarity.png")
