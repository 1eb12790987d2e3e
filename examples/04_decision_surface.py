"""A classifier, its decision surface and its rules

Two half moons cannot be separated by a line. A fuzzy classifier with six rules bends around them,
and each rule stays a statement about a region of the plane. With `coverage` it also says when a
point is too close to call.

What to see: on the left, the probability of the upper moon. The numbers mark the centers of the
rules. On the right, the sets of classes that hold the true class in at least 95 of 100 cases:
white points get both classes, and they lie where the moons meet.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from deepfls import FLSClassifier

# %%
X, y = make_moons(800, noise=0.25, random_state=0)
X_train, X_test, y_train, y_test = X[:500], X[500:], y[:500], y[500:]
model = FLSClassifier(kind="it2", n_rules=6, epochs=60, coverage=0.95, random_state=0).fit(
    X_train, y_train
)
chosen = model.predict_set(X_test)  # (rows, classes), boolean
covered = chosen[np.arange(len(y_test)), y_test].mean()
print(f"accuracy {model.score(X_test, y_test):.3f}, {covered:.1%} of the sets hold the class")
print(f"{np.mean(chosen.sum(axis=1) == 2):.1%} of the points get both classes")
print(model.rules_as_text(top=2))

# %%
x0, x1 = np.meshgrid(np.linspace(-2, 3, 200), np.linspace(-1.6, 2.1, 160))
probability = model.predict_proba(np.column_stack([x0.ravel(), x1.ravel()]))[:, 0].reshape(x0.shape)
colors = np.array(["#D55E00", "#0072B2"])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
filled = left.contourf(x0, x1, probability, levels=np.linspace(0, 1, 21), cmap="RdBu_r", alpha=0.8)
left.contour(x0, x1, probability, levels=[0.5], colors="black", linewidths=1.2)
left.scatter(*X_test.T, c=colors[y_test], s=9, edgecolors="white", linewidths=0.4)
centers = model.x_scaling_.invert(model.system_.centers.detach().numpy())
for number, center in enumerate(centers, start=1):
    left.annotate(
        str(number),
        center,
        weight="bold",
        ha="center",
        va="center",
        bbox={"boxstyle": "circle", "fc": "white"},
    )
left.set(
    xlabel="x0",
    ylabel="x1",
    title="probability of the upper moon, and the rules",
    xlim=(-2, 3),
    ylim=(-1.6, 2.1),
)
figure.colorbar(filled, ax=left, ticks=[0, 0.5, 1])

both = chosen.sum(axis=1) == 2
right.scatter(*X_test[~both].T, c=colors[model.predict(X_test[~both])], s=12, label="one class")
right.scatter(*X_test[both].T, c="white", edgecolors="black", s=22, label="both classes")
right.set(xlabel="x0", title="sets of classes at 95 %")
right.legend(loc="lower left")
figure.savefig("decision_surface.png")
