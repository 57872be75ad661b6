"""The part of an ROC curve that counts, shaded: on ijcnn1, or on the digits (is it an eight?) without that file.

Run ``python examples/roc.py [PATH]``; the picture is written to docs/roc.png, or to PATH. Needs matplotlib.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import xrisk
from xrisk.datasets import find_file
from xrisk.metrics import partial_auc_interval, roc_region

MIN_TPR, MAX_FPR = 0.5, 0.5
BLUE, GREY = "#1a4fa3", "#777777"
DEFAULT = Path(__file__).resolve().parents[1] / "docs" / "roc.png"


def table() -> tuple[str, list[np.ndarray]]:
    """The name of a table with rare positives; its training and test rows, its training and test labels."""
    path = find_file("ijcnn1.npz")
    if path is None:
        X, digit = load_digits(return_X_y=True)
        return "digits", train_test_split(X / 16.0, digit == 8, stratify=digit == 8, random_state=0)
    with np.load(path) as data:
        return "ijcnn1", [data["X_train"], data["X_test"], data["y_train"] > 0, data["y_test"] > 0]


def main() -> None:
    name, (X, X_new, y, y_new) = table()
    region = {"min_tpr": MIN_TPR, "max_fpr": MAX_FPR}
    models = {
        "logistic regression": (LogisticRegression(max_iter=1000), GREY, "--"),
        "TwoWayPartialAUCClassifier": (xrisk.TwoWayPartialAUCClassifier(**region, random_state=0), BLUE, "-"),
    }
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    for model_name, (model, colour, style) in models.items():
        score = model.fit(X, y).decision_function(X_new)
        found = roc_region(y_new, score, **region)
        low, high = partial_auc_interval(y_new, score, **region, n_resamples=200, random_state=0)
        label = f"{model_name}: {found.score:.3f} ({low:.2f}–{high:.2f})"
        print(label)
        for axes in panels:
            axes.plot(found.fpr, found.tpr, style, color=colour, lw=1.6, label=label)
    for axes in panels:  # the share of the last model, the ranking one
        axes.add_patch(plt.Rectangle((0, MIN_TPR), MAX_FPR, 1 - MIN_TPR, color="#e6e6e6", zorder=0))
        axes.fill(*found.polygon.T, color=BLUE, alpha=0.25, lw=0, zorder=1)
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
    panels[0].plot([0, 1], [0, 1], ":", color=GREY, lw=1)
    panels[0].set(
        xlim=(0, 1), ylim=(0, 1.01), title=f"{name}, {len(y_new):,} test rows: the region that counts in grey"
    )
    panels[1].set(xlim=(0, MAX_FPR), ylim=(MIN_TPR, 1.005), title="The region alone")
    panels[0].legend(loc="lower right", frameon=False, title="partial AUC (95 % interval)")
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else DEFAULT, dpi=100)


if __name__ == "__main__":
    main()
