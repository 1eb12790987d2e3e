"""The base of the plots: labels, and no use of pyplot."""

from __future__ import annotations

import subprocess
import sys

from deepfls.inspection.display import label


def test_label_is_one_line_of_plain_text() -> None:
    assert label("cost in $") == r"cost in \$"
    assert label("a\n b") == "a b"
    assert len(label("x" * 300)) == 40


def test_plots_do_not_touch_pyplot() -> None:
    source = (
        "import sys; from deepfls.inspection import LearningCurveDisplay; "
        "LearningCurveDisplay([{'epoch': 1.0, 'loss': 1.0}]).plot(); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
