"""Adult by income × race × sex × age × household × education: what re-weighting achieves, and what group DRO adds.

Run ``python examples/adult.py``. Groups with fewer than 150 training rows are left out of all splits.
"""

import numpy as np

import xrisk
from xrisk.datasets import load_adult
from xrisk.objectives import WorstGroups
from xrisk.objectives.worst_groups import summary, verdict
from xrisk.study import compare
from xrisk.tables import Part

LEAST_ROWS, L2 = 150, 1e-2


def main() -> None:
    train, validation = (load_adult(split=split, random_state=0) for split in ("train", "validation"))
    test = load_adult(split="test")
    often = np.bincount(train.groups, minlength=len(train.group_names)) >= LEAST_ROWS
    names = np.array(train.group_names)

    def rows(table) -> Part:
        kept = often[table.groups]
        return Part(table.X[kept], table.y[kept], names[table.groups[kept]])

    model = xrisk.GroupDROClassifier(divergence="max", l2=L2, random_state=0)
    study = compare(WorstGroups(model), rows(train), rows(validation), rows(test))
    sizes = study.sizes
    print(f"{sizes['groups']} groups, {sizes['train_rows']:,} training rows, {sizes['test_rows']:,} test rows\n")
    print(summary(study))
    for arm in study.arms:
        print(f"{arm.name + ', worst group:':<26}{arm.test.worst.name}, {arm.test.worst.n} rows")
    print(f"\n{verdict(study)}")


if __name__ == "__main__":
    main()
