"""How many rules are enough?

Few rules are easy to read, many are accurate. The usual way to find a compromise is to train
several numbers of rules and look at the error on rows that were not trained on. Another is to
train a large system and let `simplify` merge and prune its rules as long as the error allows.

What to see: the error falls quickly up to four rules and hardly afterwards; one rule is a linear
model. The diamonds show what `simplify` makes of the largest system when the error may grow by 2
and by 10 percent: a third of the rules or fewer, at nearly the same error.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from deepfls import FLSRegressor

# %%
X, y = make_friedman1(2500, n_features=5, noise=0.7, random_state=0)
X_train, X_check, X_test = X[:1500], X[1500:2000], X[2000:]
y_train, y_check, y_test = y[:1500], y[1500:2000], y[2000:]


def error(model: FLSRegressor) -> float:
    return float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))


# %%
counts = [1, 2, 4, 8, 16]
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for kind, name, color in (("t1", "Type-1", "#009E73"), ("it2", "Interval Type-2", "#0072B2")):
    models = [
        FLSRegressor(kind=kind, n_rules=n, epochs=30, random_state=0).fit(X_train, y_train)
        for n in counts
    ]
    ax.plot(counts, [error(model) for model in models], marker="o", color=color, label=name)
    print(
        f"{name:15}",
        *(f"{n} rules: {error(model):.3f}" for n, model in zip(counts, models)),
        sep="  ",
    )

# %%
for tolerance in (0.02, 0.1):
    small = models[-1].simplify(X_check, y_check, tolerance=tolerance).estimator
    ax.plot(
        small.system_.n_rules,
        error(small),
        "D",
        color="#D55E00",
        label="simplified" if tolerance == 0.02 else None,
    )
    print(f"simplified, {tolerance:.0%} allowed: {small.system_.n_rules} rules, {error(small):.3f}")
ax.axhline(0.7, color="#666666", linestyle=":", linewidth=1)
ax.annotate("noise of the data", (1, 0.68), ha="left", va="top", color="#666666")
ax.set(xscale="log", xlabel="rules", ylabel="RMSE on test rows", ylim=(0, None))
ax.set_xticks(counts, map(str, counts))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
figure.savefig("how_many_rules.png")
