"""Why this prediction?

A model predicts how far a patient's diabetes will progress within a year. A doctor will ask why.
The explanation splits the prediction in two ways, both of which add up exactly: by input,
measured from the average patient, and by rule.

What to see: starting from the prediction for the average patient, each bar adds what one input
contributes for this patient, the largest first; the last bar arrives at the prediction. Nothing
is left over, because these are exact Shapley values of the fuzzy system, not an approximation of
it. The patient was chosen for a picture that reads well.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from deepfls import FLSRegressor

# %%
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X[["age", "bmi", "bp", "s3", "s5"]].rename(
    columns={"bp": "blood pressure", "s3": "HDL", "s5": "log triglycerides"}
)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = FLSRegressor(kind="it2", n_rules=4, random_state=0).fit(X_train, y_train)

# %%
patient, truth = X_test.iloc[12], y_test.iloc[12]
explanation = model.explain(patient)
print(explanation)

# %%
pushes = explanation.pushes.y[:, 0]
order = np.argsort(-np.abs(pushes))
start = explanation.base.y[0] + np.concatenate([[0.0], np.cumsum(pushes[order])])
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for place, feature in enumerate(order):
    color = "#D55E00" if pushes[feature] > 0 else "#0072B2"
    ax.barh(place, pushes[feature], left=start[place], color=color, height=0.6)
    ax.plot(
        [start[place + 1]] * 2,
        [place - 0.3, min(place + 1.3, len(order) - 0.7)],
        color="#666666",
        linewidth=0.8,
    )
    ax.annotate(
        f"{pushes[feature]:+.1f}",
        (max(start[place : place + 2]), place),
        (4, 0),
        textcoords="offset points",
        va="center",
    )
ax.axvline(start[0], color="black", linestyle=":", linewidth=1)
ax.set_yticks(range(len(order)), [f"{X.columns[f]} = {patient.iloc[f]:.4g}" for f in order])
ax.set(
    xlabel="progression",
    title=f"average patient {start[0]:.0f}, this patient {start[-1]:.0f} (true value {truth:.0f})",
)
ax.invert_yaxis()
ax.set_xlim(start.min() - 0.05 * np.ptp(start), start.max() + 0.12 * np.ptp(start))
ax.spines[["top", "right"]].set_visible(False)
figure.savefig("explain_one_prediction.png")
