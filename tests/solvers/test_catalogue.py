"""The catalogue is the one list of methods."""

import importlib
import pkgutil
import re

import pytest

import xrisk.solvers
from tests.solvers.cases import squares
from xrisk.solvers.catalogue import CATALOGUE, METHODS


def solvers_in_files():
    """Every class of the package that is a solver."""
    modules = pkgutil.walk_packages(xrisk.solvers.__path__, "xrisk.solvers.")
    found = (thing for info in modules for thing in vars(importlib.import_module(info.name)).values())
    return {thing for thing in found if isinstance(thing, type) and {"advance", "card"} <= set(dir(thing))}


def test_every_solver_of_the_package_is_in_the_catalogue():
    protocol = {xrisk.solvers.base.Solver}
    assert solvers_in_files() - protocol == {type(solver) for solver in CATALOGUE.values()}


def test_every_method_is_there_for_users_by_its_name():
    assert [cls for cls in METHODS if getattr(xrisk.solvers, cls.__name__, None) is not cls] == []


def test_no_two_entries_have_the_same_words():
    told = [(solver.card().name, solver.card().rate, solver) for solver in CATALOGUE.values()]
    assert len(told) == len(set(map(repr, told)))


@pytest.mark.parametrize("cls", METHODS, ids=lambda cls: cls.__name__)
def test_a_method_names_its_paper_or_is_ours(cls):
    """By its year, or as a part of one of the five papers that the package is made of."""
    found = cls().card()
    assert found.confidence == "ours" or re.search(r"\b(19|20)\d\d\b|ALEXR|STACO|SCDRO|SVRPDA|book", found.paper)


def card(name):
    return CATALOGUE[name].card()


def asked(name):
    return {need.words for need in card(name).theory}


def test_alexr_has_all_terms_of_its_rates():
    """Theorems 3 and 6, the misprint √n/(√S μ) corrected."""
    convex, strong = card("alexr").rate.split("; ")
    assert "√(n/S)/ε + nσ₀²/(BSε²) + σ₁²/(Bε²) + δ²/(Sε²), with a kink in g + 1/ε²" in convex
    assert "n/S + √(n/(Sμ)) + 1/μ + nσ₀²/(BSε) + σ₁²/(μBε) + δ²/(μSε), with a kink in g + 1/(με)" in strong


@pytest.mark.parametrize("mirror", [xrisk.solvers.Conjugate(), xrisk.solvers.Entropy()], ids=str)
def test_maps_that_are_not_smooth_claim_no_convex_rate(mirror):
    """Theorem 6 asks for a smooth map."""
    found = xrisk.solvers.ALEXR(mirror=mirror).card()
    assert not found.rate.startswith("convex")
    assert "a strongly convex penalty" in {need.words for need in found.theory}


def test_without_extrapolation_the_convex_rate_keeps_its_square():
    """Theorem 22: 1/ε² even for smooth g without noise."""
    assert card("alexr-theta0").rate.startswith("convex 1/ε² + nσ₀²/(BSε²)")


@pytest.mark.parametrize("name", ["alexr", "alexr-theta0", "alexr-conjugate", "sapd", "ssd", "nssd"])
def test_saddle_point_methods_ask_for_lipschitz_f_and_a_convex_coupling(name):
    assert {"a Lipschitz outer function", "a non-decreasing outer function or affine inner functions"} <= asked(name)


def test_bsgd_covers_kinks_with_more_samples():
    assert "a smooth outer function" not in asked("bsgd")
    assert "B = 1/ε if f is smooth and 1/ε² if it has a kink" in card("bsgd").rate


@pytest.mark.parametrize(("name", "term"), [("sox", "n/(BSε⁴)"), ("msvr-v2", "n/(S√Bε³)"), ("sonex-v1", "n/(SBε⁷)")])
def test_rates_have_the_batch_size(name, term):
    assert term in card(name).rate


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_what_theory_asks_for_can_be_told_of_a_problem(name):
    """A square is not Lipschitz, and here it is not monotone either."""
    met = {need.words: need.met(squares()) for need in card(name).theory}
    assert met.get("a Lipschitz outer function", False) is False
    assert met.get("a non-decreasing outer function or affine inner functions", True) is True


def test_the_rate_of_fastdro_is_that_of_table_1_of_the_scdro_paper():
    assert CATALOGUE["fastdro"].card().rate.startswith("convex 1/ε³")
