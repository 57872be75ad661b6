"""Microseconds of one STACO iteration in LibAUC, to compare with benchmarks/auc.py: for an environment of its own.

``pip install torch libauc --no-deps`` into it; torchvision, which LibAUC imports without need, is replaced by a stub.
ijcnn1's shape: 35,000 rows, 22 columns, 32 positives and 64 negatives, on one thread.
"""

import sys
import time
import types

import numpy as np
import torch

for name in ("torchvision", "torchvision.transforms", "torchvision.datasets", "torchvision.models"):
    sys.modules[name] = types.ModuleType(name)

from libauc.losses.auc import tpAUC_CVaR_loss  # noqa: E402
from libauc.optimizers.staco import STACO  # noqa: E402

torch.set_num_threads(1)
rng = np.random.default_rng(0)
X = torch.from_numpy(rng.standard_normal((35_000, 22)).astype(np.float32))
y = torch.from_numpy((rng.random(35_000) < 0.097).astype(np.int64))
positive, negative = torch.where(y == 1)[0], torch.where(y == 0)[0]
model = torch.nn.Linear(22, 1, bias=False)
loss_fn = tpAUC_CVaR_loss(data_length=35_000)
optimizer = STACO(model.parameters(), mode="sgd", lr=0.1)


def iterate(steps: int) -> float:
    """Seconds of so many steps."""
    started = time.perf_counter()
    for _ in range(steps):
        chosen = torch.cat(
            [
                positive[torch.randint(0, len(positive), (32,))],
                negative[torch.randint(0, len(negative), (64,))],
            ]
        )
        loss = loss_fn(model(X[chosen]), y[chosen], chosen)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - started


iterate(50)
print(f"{1e6 * min(iterate(500) for _ in range(5)) / 500:.1f} µs")
