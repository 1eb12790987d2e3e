"""From an expert's .fis file to a learned system

An engineer has written four Sugeno rules for a fan in MATLAB: *if the room is hot and humid, then
the fan runs fast*. The rules are roughly right. deepfls reads the `.fis` file as a fitted model
with exactly its predictions, and continues from there with measured data; the result can be
written back as a `.fis` file.

What to see: the expert's surface (left) has the right shape and the wrong numbers. After learning
from 300 measurements (dots, in the middle) the surface matches the true one (right) closely, and
the rules are still four.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from deepfls.export import read_fis

# %%
inputs = {"temperature": ((15, 35), (17, 33), 8), "humidity": ((20, 90), (25, 85), 28)}
text = "[System]\nName='fan'\nType='sugeno'\nNumInputs=2\nNumOutputs=1\nNumRules=4\n"
text += "AndMethod='prod'\nDefuzzMethod='wtaver'\n"
for number, (name, (span, centers, width)) in enumerate(inputs.items(), start=1):
    text += f"\n[Input{number}]\nName='{name}'\nRange=[{span[0]} {span[1]}]\nNumMFs=2\n"
    text += (
        f"MF1='low':'gaussmf',[{width} {centers[0]}]\nMF2='high':'gaussmf',[{width} {centers[1]}]\n"
    )
text += "\n[Output1]\nName='fan'\nRange=[0 100]\nNumMFs=4\n"
for number, speed in enumerate((10, 30, 50, 100), start=1):  # speed of the fan in percent
    text += f"MF{number}='speed{number}':'constant',[{speed}]\n"
text += "\n[Rules]\n1 1, 1 (1) : 1\n1 2, 2 (1) : 1\n2 1, 3 (1) : 1\n2 2, 4 (1) : 1\n"
Path("fan.fis").write_text(text)


def best_speed(temperature: np.ndarray, humidity: np.ndarray) -> np.ndarray:
    """What measurements say, unknown to the expert."""
    return 100 / (1 + np.exp(-(temperature - 27 + 0.06 * (humidity - 50)) / 2.2))


# %%
random = np.random.default_rng(0)
X = random.uniform((15, 20), (35, 90), size=(300, 2))
y = best_speed(*X.T) + random.normal(0, 2, 300)
expert = read_fis("fan.fis", names=False, epochs=150, random_state=0)
grid = np.meshgrid(np.linspace(15, 35, 60), np.linspace(20, 90, 60))
points = np.column_stack([axis.ravel() for axis in grid])
before = expert.predict(points)
print(f"R² as written {expert.score(X, y):.3f}")
after = expert.fit(X, y).predict(points)
print(f"R² after learning {expert.score(X, y):.3f}")
expert.to_fis("fan_learned.fis")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
shown = {
    "as the expert wrote it": before,
    "after learning": after,
    "the truth": best_speed(*points.T),
}
for ax, (title, speed) in zip(axes, shown.items()):
    filled = ax.contourf(
        *grid,
        np.clip(speed, 0, 105).reshape(60, 60),
        levels=np.linspace(0, 105, 22),
        cmap="viridis",
    )
    ax.set(title=title, xlabel="temperature (°C)")
axes[1].scatter(*X.T, s=3, color="white", alpha=0.7)
axes[0].set_ylabel("humidity (%)")
figure.colorbar(filled, ax=axes, label="fan (%)")
figure.savefig("from_fis_to_learned.png")
