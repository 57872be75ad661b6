"""A linear model trained with a loss on the batches that a naive twin draws."""

import numpy as np
import torch

from tests.reference.problems import sampled
from tests.reference.two_way import TwoWay

DOUBLE = {"dtype": torch.float64, "margin": 1.0}


class Rows:
    """The rows of `tests.reference.two_way.TwoWay`: the positives first."""

    def __init__(self, batch=6):
        self.p = TwoWay(np.array([0.3, -0.2, 0.1, 0.0]), batch)
        self.X = torch.from_numpy(np.vstack([self.p.above, self.p.below]))
        self.n = self.p.n
        self.targets = (torch.arange(len(self.X)) < self.n).long()
        self.y = 2 * self.targets.numpy() - 1

    def batches(self, steps, seed, blocks, batches=1):
        """Numbers of rows of each batch, and which are of the second batch of negatives."""
        rng, order = np.random.default_rng(seed), np.arange(self.n)
        for _ in range(steps):
            chosen = list(sampled(order, blocks, rng))
            parts = [self.n + self.p.draw(rng) for _ in range(batches)]
            index = torch.from_numpy(np.concatenate([chosen, *parts]))
            yield index, torch.arange(len(index)) >= len(index) - len(parts[-1])

    def all_rows(self):
        return torch.arange(len(self.X))

    def weights(self):
        return torch.from_numpy(self.p.x0.copy()).requires_grad_()


def gradient(rows, loss, w, index, **options):
    """The value of a batch and its gradient in the weights."""
    value = loss(rows.X[index] @ w, rows.targets[index], index, **options)
    return value, torch.autograd.grad(value, w)[0]


def descend(rows, w, grad, step):
    """A gradient step and the proximal step of the twin's penalty."""
    with torch.no_grad():
        w.copy_(torch.from_numpy(rows.p.prox((w - step * grad).numpy(), step)))


def difference_quotients(function, w, h=1e-6):
    """The gradient of a function of weights (d,), by central differences."""
    steps = h * torch.eye(w.numel()).to(w)
    return w.new_tensor([(function(w + step) - function(w - step)) / (2 * h) for step in steps])


def assert_close(found, expected, rtol=1e-10, atol=1e-10):
    """Tensors equal numbers; torch.testing takes two seconds to import."""
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=atol)


def assert_states_close(found, expected):
    """The same names, and numbers equal up to rounding."""
    assert set(found) == set(expected)
    for name in expected:
        assert_close(found[name], expected[name], rtol=1e-12, atol=1e-12)
