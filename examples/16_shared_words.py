"""Rules in shared words

Ten free rules have ten different sets on every input, and no two of them can be compared. With
`n_terms=3` every input has three sets that all rules share, in a fixed order, with names of your
choice. A rule then picks one word per input, or none, and reads as an expert would say it.

What to see: the words of each input, learned but still ordered; a word that no rule needs is not
drawn. The rules that are printed use these words alone. The price is some accuracy: sets of their
own fit more closely.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from deepfls import FLSRegressor

# %%
# Comfort of a room (0 to 100) by temperature, humidity and the speed of the air.
random = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "temperature": random.uniform(12, 34, 1200),
        "humidity": random.uniform(15, 95, 1200),
        "draught": random.uniform(0, 1.0, 1200),
    }
)
felt = X["temperature"] - 7 * X["draught"] + 0.06 * (X["humidity"] - 50)
y = 100 * np.exp(-(((felt - 20) / 6) ** 2)) + random.normal(0, 3, 1200)
y.name = "comfort"

# %%
words = {"temperature": ["cold", "mild", "hot"], "humidity": ["dry", "normal", "damp"]}
settings = {"kind": "t1", "n_rules": 8, "epochs": 80, "random_state": 0}
free = FLSRegressor(**settings).fit(X[:900], y[:900])
model = FLSRegressor(**settings, n_terms=3, words=words).fit(X[:900], y[:900])
print(f"R² on test rows: {model.score(X[900:], y[900:]):.3f} with shared words")
print(f"R² on test rows: {free.score(X[900:], y[900:]):.3f} with sets of their own")
print(model.rules_as_text(top=3))

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
model.plot_memberships(axes=axes)
figure.savefig("shared_words.png")
