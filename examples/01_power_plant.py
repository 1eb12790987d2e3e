"""A power plant, and the rules that describe it

A combined cycle power plant delivers less power on a hot day. How much less depends on the vacuum
of the condenser, the pressure of the air and its humidity. Here five rules learn the electrical
output of a simulated plant from 2,000 hours of operation, and say in words what they learned.

What to see: on the left, predictions for 500 hours that were not used for training lie along the
diagonal. On the right, the output falls with the temperature, steeply in the middle and less at
both ends. The rules give the same picture in numbers: each one holds around a typical state of
the plant, and has a straight line for that state.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from deepfls import FLSRegressor
from deepfls.inspection import PredictionDisplay, ResponseCurveDisplay

# %%
# Simulated hours: temperature (°C), condenser vacuum (cm Hg), air pressure (mbar), humidity (%).
random = np.random.default_rng(0)
temperature = random.uniform(2, 36, 2500)
vacuum = 30 + 1.1 * temperature + random.normal(0, 6, 2500)
pressure = random.normal(1013, 6, 2500)
humidity = np.clip(95 - 1.2 * temperature + random.normal(0, 12, 2500), 25, 100)
output = (
    455 - 20 * np.tanh((temperature - 17) / 9) - 0.25 * (vacuum - 50) + 0.06 * (pressure - 1013)
)
output += -0.0008 * humidity * temperature + random.normal(0, 2.5, 2500)
X = pd.DataFrame(
    {"temperature": temperature, "vacuum": vacuum, "pressure": pressure, "humidity": humidity}
)
y = pd.Series(output, name="output")
X_train, X_test, y_train, y_test = X[:2000], X[2000:], y[:2000], y[2000:]

# %%
model = FLSRegressor(kind="it2", n_rules=5, epochs=40, random_state=0).fit(X_train, y_train)
line = LinearRegression().fit(X_train, y_train)
print(f"R² on the test hours: {model.score(X_test, y_test):.3f}")
print(f"R² of a linear model: {line.score(X_test, y_test):.3f}")

# %%
print(model.rules())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
PredictionDisplay(y_test, model.predict(X_test)).plot(left, name="output (MW)")
ResponseCurveDisplay.from_estimator(model, "temperature", ax=right)
right.set(xlabel="temperature (°C)", ylabel="output (MW)")
figure.savefig("power_plant.png")
