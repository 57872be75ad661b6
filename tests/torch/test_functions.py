"""Every function of our tables has a PyTorch twin with the same values and slopes, at extreme values too."""

import ast
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import xrisk
import xrisk.torch
from tests.functions.cases import EXTREMES, JOINTS, LOSSES, OUTERS
from xrisk import functions as xf
from xrisk.torch import functions as tf

POINTS = [*np.random.default_rng(0).uniform(-4.0, 4.0, 40), 0.5, 30.0, -30.0, 300.0, -300.0]
KINKS = {0.0, -0.0, 1.0, -1.0}
SMOOTHED = [xf.Smoothed(f, nu) for f in OUTERS for nu in (0.05, 3.0)]

every_outer = pytest.mark.parametrize("f", [*OUTERS, *SMOOTHED], ids=repr)
every_joint = pytest.mark.parametrize("f", JOINTS, ids=repr)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def vector(numbers, *, requires_grad=False):
    return torch.tensor(np.array(numbers, dtype=float), requires_grad=requires_grad)


def assert_equal(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found.detach().numpy(), np.array(expected), rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("verb", ["outer_value", "outer_slope"])
@pytest.mark.parametrize("cls", [*xf.outer_value.table, *(type(f) for f in JOINTS)])
def test_every_outer_function_has_a_twin(cls, verb):
    ours = cls.__module__.startswith("xrisk.")
    assert cls in getattr(tf, verb).table or not ours, f"xrisk.torch.functions needs @{verb}.of(xf.{cls.__name__})"


@pytest.mark.parametrize("cls", xf.outer_value.table)
def test_every_outer_function_can_be_smoothed(cls):
    ours = cls.__module__.startswith("xrisk.")
    assert cls in tf.outer_prox.table or not ours, f"xrisk.torch.functions needs @outer_prox.of(xf.{cls.__name__})"


@pytest.mark.parametrize("cls", [*xf.loss_value.table, *xf.scores_value.table])
def test_every_loss_has_a_twin(cls):
    ours = cls.__module__.startswith("xrisk.")
    assert cls in tf.loss_value.table or not ours, f"xrisk.torch.functions needs @loss_value.of(xf.{cls.__name__})"


@every_outer
def test_outer_values_and_slopes_agree(f):
    assert_equal(tf.outer_value(f, vector(POINTS)), [xf.outer_value(f, u) for u in POINTS])
    assert_equal(tf.outer_slope(f, vector(POINTS)), [xf.outer_slope(f, u) for u in POINTS])


@every_outer
def test_outer_values_and_slopes_agree_at_extreme_values(f):
    assert_equal(tf.outer_value(f, vector(EXTREMES)), [xf.outer_value(f, u) for u in EXTREMES])
    assert_equal(tf.outer_slope(f, vector(EXTREMES)), [xf.outer_slope(f, u) for u in EXTREMES])


@every_outer
def test_autograd_finds_the_slope(f):
    points = [u for u in (*POINTS, *EXTREMES) if u not in KINKS]
    u = vector(points, requires_grad=True)
    tf.outer_value(f, u).sum().backward()
    assert_equal(u.grad, [xf.outer_slope(f, point) for point in points])


@every_outer
def test_nan_stays_nan(f):
    assert torch.isnan(tf.outer_value(f, vector([math.nan]))).all()


BLOCKS = np.concatenate(
    [
        np.random.default_rng(1).normal(size=(20, 5)),
        [
            [1e300, -1e300, 0.0, 5e-324, 1e10],
            [800.0, 799.0, -800.0, 1.0, 2.0],
            [-1e300, -2e300, -3e299, -1e299, -4e300],
        ],
    ]
)


@every_joint
def test_values_of_blocks_agree(f):
    assert_equal(tf.block_value(f, vector(BLOCKS)), [xf.block_value(f, u) for u in BLOCKS])


@every_joint
def test_slopes_of_blocks_agree_with_ours_and_with_autograd(f):
    expected = np.zeros_like(BLOCKS)
    for u, y in zip(BLOCKS, expected, strict=True):
        xf.block_slope(f, u, y)
    u = vector(BLOCKS, requires_grad=True)
    tf.outer_value(f, u).sum().backward()
    assert_equal(u.grad, expected)
    assert_equal(tf.outer_slope(f, vector(BLOCKS)), expected)


def test_a_scalar_function_of_a_block_is_a_sum():
    assert_equal(tf.block_value(xf.Square(), vector([[1.0, 2.0], [3.0, 4.0]])), [5.0, 25.0])


def loss_points(loss):
    """Scores, targets and what ours says of them."""
    targets = (1.0, -1.0) if xf.loss_is_classification(loss) else (1.0, -1.0, 0.3)
    return [(z, y) for z in (*POINTS, *EXTREMES) for y in targets]


@every_loss
def test_losses_agree(loss):
    z, y = zip(*loss_points(loss), strict=True)
    assert_equal(
        tf.loss_value(loss, vector(z), vector(y)), [xf.loss_value(loss, *point) for point in loss_points(loss)]
    )


@every_loss
def test_autograd_finds_the_slope_of_a_loss(loss):
    points = loss_points(loss)
    z = vector([point[0] for point in points], requires_grad=True)
    tf.loss_value(loss, z, vector([point[1] for point in points])).sum().backward()
    assert_equal(z.grad, [xf.loss_slope(loss, *point) for point in points])


def test_the_multinomial_loss_agrees():
    classes = np.arange(len(BLOCKS)) % 5
    expected = [xf.scores_value(xf.Multinomial(), z, k) for z, k in zip(BLOCKS, classes, strict=True)]
    assert_equal(tf.loss_value(xf.Multinomial(), vector(BLOCKS), torch.tensor(classes)), expected)


def test_the_slope_of_the_multinomial_loss_agrees():
    classes, expected = np.arange(len(BLOCKS)) % 5, np.zeros_like(BLOCKS)
    for z, k, out in zip(BLOCKS, classes, expected, strict=True):
        xf.scores_slope(xf.Multinomial(), z, k, out)
    z = vector(BLOCKS, requires_grad=True)
    tf.loss_value(xf.Multinomial(), z, torch.tensor(classes)).sum().backward()
    assert_equal(z.grad, expected)


@pytest.mark.parametrize("f", [tf.Quotient(), tf.Discount(), tf.LogMeanExp(0.4)], ids=repr)
def test_slopes_of_our_torch_functions_are_derivatives(f):
    u = vector(np.random.default_rng(2).uniform(0.5, 3.0, (6, 2)), requires_grad=True)
    tf.block_value(f, u).sum().backward()
    assert_equal(u.grad, tf.outer_slope(f, u.detach()).numpy())


def test_a_spec_without_a_twin_is_refused():
    with pytest.raises(TypeError, match=r"xrisk\.torch has no outer_value for CVaRRisk"):
        tf.outer_value(xf.CVaRRisk(), vector([1.0]))


def test_nothing_else_of_ours_imports_torch():
    source = Path(xrisk.__file__).parent
    others = [path for path in source.rglob("*.py") if source / "torch" not in path.parents]
    imports = re.compile(r"^\s*(import|from) (xrisk\.)?torch\b", re.MULTILINE)
    assert [path.name for path in others if imports.search(path.read_text())] == []


@pytest.mark.slow
def test_importing_xrisk_does_not_import_torch():
    code = "import sys, xrisk; sys.exit('torch' in sys.modules)"
    environment = {"PYTHONPATH": str(Path(xrisk.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.parametrize("path", sorted(Path(xrisk.torch.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_it_imports_nothing_of_ours_but_functions(path):
    tree = ast.parse(path.read_text())
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".") for node in lines for alias in node.names]
    ours = [name for name in names if name.split(".")[0] == "xrisk"]
    assert [name for name in ours if not name.startswith(("xrisk.torch", "xrisk.functions"))] == []
