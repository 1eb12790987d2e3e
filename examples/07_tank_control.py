"""A controller learned from data closes a loop

The level of a conical tank is hard to control: near the bottom a little water raises it a lot,
near the top hardly at all. A PI controller tuned for the middle is nervous below and sluggish
above. Here a fuzzy system learns from logged operation which inflow makes the level change at a
given rate, and closes the loop with that.

What to see: in the middle of the tank both controllers do well. At a high level the PI controller
overshoots, and at a low one it never settles. The fuzzy controller answers in the same way
everywhere, because its rules have a gain of their own at every level. Tank, targets and gains were
chosen to show the difference; a PI controller with scheduled gains would do better than this one.
"""

import matplotlib.pyplot as plt
import numpy as np

from deepfls import FLSRegressor

STEP = 1.0  # seconds between two commands


def next_level(level: float, inflow: float) -> float:
    """The tank after one step: a cone with an open outlet."""
    for _ in range(5):
        level += STEP / 5 * (inflow - 0.9 * np.sqrt(level)) / (1.0 + 2.0 * level**2)
        level = float(np.clip(level, 0.05, 5.0))
    return level


# %%
# A log of operation under random inflow: level, change of the level in one step, inflow.
random = np.random.default_rng(0)
log = []
for _ in range(1200):
    level, inflow = random.uniform(0.1, 4.5), random.uniform(0, 4)
    log.append((level, next_level(level, inflow) - level, inflow))
rows = np.array(log)
controller = FLSRegressor(kind="it2", n_rules=12, epochs=60, random_state=0).fit(
    rows[:, :2], rows[:, 2]
)
print(f"R² of the learned inverse {controller.score(rows[:, :2], rows[:, 2]):.4f}")

# %%
target = np.repeat([0.5, 2.0, 1.0, 3.0, 0.4], [25, 60, 40, 70, 105])


def closed_loop(command) -> np.ndarray:
    levels = [0.3]
    for wanted in target[:-1]:
        levels.append(next_level(levels[-1], float(np.clip(command(levels[-1], wanted), 0, 4))))
    return np.array(levels)


def fuzzy(level: float, wanted: float) -> float:
    return controller.predict([[level, np.clip(0.35 * (wanted - level), -0.15, 0.15)]])[0]


integral = 0.0


def pi(level: float, wanted: float) -> float:
    """Proportional and integral, tuned at a level of 2."""
    global integral
    integral = float(np.clip(integral + 0.25 * STEP * (wanted - level), 0, 4))
    return 2.5 * (wanted - level) + integral


# %%
figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
seconds = STEP * np.arange(len(target))
ax.step(seconds, target, color="black", linewidth=1, linestyle=":", where="post", label="wanted")
for name, command, color in (("PI", pi, "#D55E00"), ("fuzzy, learned", fuzzy, "#0072B2")):
    levels = closed_loop(command)
    ax.plot(seconds, levels, color=color, linewidth=1.6, label=name)
    print(f"{name:15} mean absolute error of the level {np.abs(levels - target).mean():.3f}")
ax.set(xlabel="seconds", ylabel="level of the tank")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=3)
figure.savefig("tank_control.png")
