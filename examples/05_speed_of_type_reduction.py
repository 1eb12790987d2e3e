"""The paper's speed plot: type reduction against the number of rules

Type reduction is what makes Interval Type-2 systems slow. The classic Karnik-Mendel algorithm
works sample by sample; the paper of Köklü, Güven and Kumbasar tries all 2^rules switches in one
batch, which is fast up to a point. deepfls computes the same end points by Newton sweeps over the
whole batch.

What to see: all algorithms give the same ends. The time of the enumeration soon doubles with every
rule, and is off the chart beyond 12 rules. The classic algorithm costs much for any number of
rules. The Newton sweeps are the fastest throughout. Times are of one run on whatever machine
built this page, so compare lines, not numbers.
"""

import time

import matplotlib.pyplot as plt
import torch

from deepfls.functional import karnik_mendel

# %%
torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)


def microseconds_per_sample(algorithm: str, n_rules: int, n_samples: int) -> float:
    """Processor time of one reduction, the best of five."""
    upper = torch.rand(n_samples, n_rules, generator=generator)
    lower = upper * torch.rand(n_samples, n_rules, generator=generator)
    consequents = torch.randn(n_samples, n_rules, 1, generator=generator)
    exact = karnik_mendel(lower.double(), upper.double(), consequents.double(), algorithm="sort")
    times = []
    for _ in range(5):
        start = time.process_time()
        ends = karnik_mendel(lower, upper, consequents, algorithm=algorithm)
        times.append(time.process_time() - start)
    assert torch.allclose(ends.y_left.double(), exact.y_left, atol=1e-4)
    return 1e6 * min(times) / n_samples


# %%
series = {
    "iterative": ("classic Karnik-Mendel, sample by sample", [3, 10, 30, 100], 32),
    "enumerate": ("all 2^rules switches (the paper)", [3, 6, 9, 12], 64),
    "sort": ("sorting", [3, 10, 30, 100], 2048),
    "newton": ("Newton sweeps (deepfls)", [3, 10, 30, 100], 2048),
}
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for (algorithm, (name, rules, n_samples)), color in zip(
    series.items(), ["#666666", "#D55E00", "#009E73", "#0072B2"]
):
    times = [microseconds_per_sample(algorithm, n_rules, n_samples) for n_rules in rules]
    ax.plot(rules, times, marker="o", color=color, label=name)
    print(f"{algorithm:9} at {rules[-1]:3} rules: {times[-1]:8.2f} µs per sample")
ax.set(xscale="log", yscale="log", xlabel="rules", ylabel="µs per sample, one thread")
ax.set_xticks([3, 10, 30, 100], ["3", "10", "30", "100"])
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
figure.savefig("speed_of_type_reduction.png")
