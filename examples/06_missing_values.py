"""Missing values, without filling them in

Sensors fail, and forms come back half empty. In a fuzzy rule an unknown input drops out: its grade
is 1 and says nothing for or against the rule. This script removes more and more values of a table,
in training and test rows alike, and compares that with a common remedy: filling in the mean.

What to see: without gaps the two are the same model. With gaps the error is lower when unknown
values are left out of the rules than when a mean is invented for them. Both errors grow, because
what is missing is missing: no treatment brings it back.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from deepfls import FLSRegressor

# %%
random = np.random.default_rng(0)
X, y = make_friedman1(2000, n_features=5, noise=0.5, random_state=0)
X = X + 0.3 * X[:, [1, 2, 3, 4, 0]]  # inputs that know a little about each other


def with_gaps(share: float) -> np.ndarray:
    """The table with this share of its values replaced by NaN."""
    return np.where(random.random(X.shape) < share, np.nan, X)


# %%
fuzzy = FLSRegressor(kind="t1", n_rules=8, epochs=30, random_state=0)
models = {
    "filled with the mean, then fuzzy": make_pipeline(SimpleImputer(), fuzzy),
    "fuzzy, gaps as they are": fuzzy,
}
shares = [0.0, 0.1, 0.2, 0.3, 0.4]
errors = {name: [] for name in models}
for share in shares:
    tables = [with_gaps(share) for _ in range(3)]  # the mean of three, since luck has its part
    for name, model in models.items():
        predicted = [model.fit(table[:1400], y[:1400]).predict(table[1400:]) for table in tables]
        errors[name].append(np.sqrt(np.mean((np.array(predicted) - y[1400:]) ** 2)))
for name, values in errors.items():
    print(f"{name:33}", *(f"{value:.2f}" for value in values))

# %%
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), color in zip(errors.items(), ["#D55E00", "#0072B2"]):
    ax.plot([100 * share for share in shares], values, marker="o", color=color, label=name)
ax.set(xlabel="values missing (%)", ylabel="RMSE on test rows", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
figure.savefig("missing_values.png")
