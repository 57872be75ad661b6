"""Races of methods: tuned or not, in processes or not, told as a table, JSON and a picture."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from xrisk import Budget
from xrisk.compile import uncompiled
from xrisk.race import PAPER, PROBLEMS, as_dict, as_markdown, cells, draw_race, race, with_setting
from xrisk.race.grid import neighbours
from xrisk.race.phrases import rows, slope
from xrisk.race.run import MARGIN, TUNING_SEED, Entry, Trial
from xrisk.run.observers import TracePoint
from xrisk.solvers import ALEXR, NASA, SOX, Conjugate, Decreasing
from xrisk.solvers.catalogue import CATALOGUE, COLUMNS, describe, refusal
from xrisk.solvers.catalogue import as_markdown as methods_page
from xrisk.solvers.catalogue import rows as method_rows

DOCS = Path(__file__).parents[2] / "docs"


CALLS = 4800  # fifty iterations, in plain Python


def chi2():
    return xrisk.group_dro(*table(), divergence="chi2", lam=1.0, l2=0.1)


@pytest.fixture(scope="module")
def found():
    solvers = {"alexr": ALEXR(), "sox": SOX(), "wild": SOX(step=1e200)}
    with uncompiled():
        return race(chi2(), solvers, budget=Budget(oracle_calls=CALLS), seeds=[0, 1, 2], title="χ² of six groups")


@pytest.mark.slow
def test_entries_stand_by_their_median_gap(found):
    medians = [np.median(found.gaps(entry)) for entry in found.entries]
    assert medians == sorted(medians)


def test_gaps_are_to_the_certified_optimum(found):
    best = xrisk.solvers.exact(chi2())
    assert found.goal.value == best.value
    assert found.goal.dual <= best.value
    assert found.goal.value - found.goal.dual < 1e-7
    assert all((found.gaps(entry) > -1e-9).all() for entry in found.entries)


def test_every_run_keeps_to_the_budget(found):
    calls = [trial.points[-1].oracle_calls for entry in found.entries[:2] for trial in entry.trials]
    assert all(0.95 * CALLS < each <= CALLS for each in calls)


def test_a_run_that_diverges_counts_as_infinitely_far(found):
    last = found.entries[-1]
    assert last.name == "wild"
    assert {trial.stop for trial in last.trials} == {"diverged"}
    assert np.isinf(found.gaps(last)).all()
    assert "diverged" in rows(found)[-1]
    assert math.isnan(slope(found, last))


def test_a_trial_is_the_run_of_its_seed(found, plain):
    entry = next(entry for entry in found.entries if entry.name == "sox")
    result = xrisk.minimize(chi2(), SOX(), budget=Budget(oracle_calls=CALLS), rng=1)
    assert entry.trials[1].seed == 1
    assert entry.trials[1].points[-1].value == result.value


def test_methods_that_do_not_apply_are_listed_with_the_reason():
    problem = xrisk.group_dro(*table(), divergence="max", l2=0.1)
    solvers = {"sox": SOX(), "mirror": ALEXR(mirror=Conjugate())}
    found = race(problem, solvers, budget=Budget(iterations=5), seeds=[0])
    assert [entry.name for entry in found.entries] == ["sox"]
    assert found.refused["mirror"].startswith("mirror must be Quadratic()")


def test_tuning_picks_the_cell_that_ends_lowest():
    grid = {"step": (1e-6, 0.05), "track": (0.3,)}
    found = race(chi2(), {"sox": SOX()}, budget=Budget(iterations=300), seeds=[0], grid=grid)
    assert found.entries[0].setting["step"] >= 0.05
    assert found.entries[0].setting["track"] == 0.3  # a single value is not tuned


def test_no_tuned_value_stands_at_an_edge():
    grid = {"step": (1e-4, 2e-4), "track": (0.1, 0.3)}
    entry = race(chi2(), {"sox": SOX()}, budget=Budget(iterations=300), seeds=[0], grid=grid).entries[0]
    assert entry.setting["step"] > 1e-3  # the grid was far too low
    assert entry.tried > 4

    def objective(setting):
        solver = with_setting(SOX(), setting)
        return xrisk.minimize(chi2(), solver, budget=Budget(iterations=300), rng=TUNING_SEED).value

    least, gap = objective(entry.setting), objective(entry.setting) - xrisk.solvers.exact(chi2()).value
    assert all(objective(cell) >= least - MARGIN * gap for cell in neighbours(entry.setting, grid))


def test_a_value_that_a_method_refuses_ends_the_search_there(plain):
    found = race(chi2(), {"nasa": NASA()}, budget=Budget(iterations=20), seeds=[0], grid={"step": (1e-9, 1.0)})
    assert found.entries[0].setting["step"] == 1.0


def test_neighbours_go_on_beyond_the_grid_and_come_back():
    grid = {"step": (0.1, 0.2), "track": (0.5, 0.9)}
    assert neighbours({"step": 0.4}, grid) == [{"step": 0.2}, {"step": 0.8}]
    assert neighbours({"step": 0.05}, grid) == [{"step": 0.025}, {"step": 0.1}]
    assert neighbours({"track": 0.9}, grid) == [{"track": 0.5}, {"track": 1.0}]
    assert neighbours({"track": 1.0}, grid) == [{"track": 0.9}]
    assert neighbours({"step": 1.0}, {"step": (1e-6, 1.0)}) == [{"step": 1e-6}, {"step": 10.0}]


@pytest.mark.slow
def test_processes_give_the_same_race_as_none():
    asked = {"budget": Budget(iterations=50), "seeds": [0, 1], "grid": {"step": (0.01, 0.1)}}
    alone, together = (race(chi2(), {"sox": SOX()}, **asked, jobs=jobs) for jobs in (1, 2))
    assert alone.entries[0].setting == together.entries[0].setting
    assert [h.points[-1].value for h in alone.entries[0].trials] == [
        h.points[-1].value for h in together.entries[0].trials
    ]


def test_progress_is_told_from_nothing_to_nearly_all():
    seen = []
    grid = {"step": (0.01, 0.1)}
    budget = Budget(iterations=5)
    race(chi2(), {"sox": SOX()}, budget=budget, seeds=[0, 1], grid=grid, watch=lambda *told: seen.append(told))
    shares = [share for _, share in seen]
    assert shares[:3] == [0.0, 0.0, 0.25]
    assert shares[-1] < 1.0
    assert seen[1][0] == "tuning sox"
    assert seen[-1][0] == "racing sox"


@pytest.mark.parametrize("seeds", [[], [0, 0], [-1], [10**6]])
def test_seeds_that_are_no_seeds_are_refused(seeds):
    with pytest.raises(ValueError, match="seeds must be different whole numbers"):
        race(chi2(), {"sox": SOX()}, budget=Budget(iterations=5), seeds=seeds)


def test_a_race_of_nobody_is_refused():
    with pytest.raises(ValueError, match="solvers must name at least one method"):
        race(chi2(), {}, budget=Budget(iterations=5))
    problem = xrisk.group_dro(*table(), divergence="max", l2=0.1)
    with pytest.raises(ValueError, match="solvers must hold one that applies, got mirror must be"):
        race(problem, {"no": ALEXR(mirror=Conjugate())}, budget=Budget(iterations=5))


def test_the_numbers_survive_strict_json(found):
    told = json.loads(json.dumps(as_dict(found), allow_nan=False))
    assert told["methods"][0]["name"] == found.entries[0].name
    assert told["methods"][-1]["final_gaps"] == [None, None, None]
    points = told["methods"][0]["runs"][0]["points"]
    assert points[-1]["oracle_calls"] > points[1]["oracle_calls"] > 0
    assert math.isclose(told["methods"][0]["final_gaps"][0], points[-1]["value"] - told["optimum"]["value"])


def test_the_slope_is_the_exponent_of_the_gap(found):
    points = [TracePoint(k, 10 * k, 0.0, found.goal.value + 3.0 * k**-0.5) for k in (1, 10, 20, 40, 80, 160)]
    made = Entry("made", SOX(), {}, 0, (Trial(0, "iterations", tuple(points)),))
    assert slope(found, made) == pytest.approx(-0.5)
    reached = Trial(0, "iterations", tuple(point._replace(value=found.goal.value) for point in points))
    assert math.isnan(slope(found, made._replace(trials=(reached,))))


def test_the_table_has_a_line_for_each(found):
    assert len(as_markdown(found).splitlines()) == 2 + 3


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_drawn(found, ending, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"race.{ending}"
    draw_race(found, path)
    assert path.stat().st_size > 10_000
    with pytest.raises(ValueError, match="shown must name at most 6 methods of the race, got nobody"):
        draw_race(found, path, shown=("nobody",))


def test_the_grid_of_the_paper_has_its_cells():
    assert len(cells(ALEXR(), PAPER)) == 9 * 9 * 2
    assert len(cells(SOX(), PAPER)) == 9 * 5
    assert PAPER["step"] == pytest.approx((0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0))


def test_a_setting_reaches_schedules():
    tuned = with_setting(SOX(step=Decreasing(0.1, 10.0, 0.75)), {"step": 0.3, "track": 0.5})
    assert tuned == SOX(step=Decreasing(0.3, 10.0, 0.75), track=0.5)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if not name.startswith("adult")])
def test_named_problems_are_sound(name):
    problem = PROBLEMS[name].build()
    problem.check()
    assert refusal(problem, CATALOGUE["alexr"]) is None


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_method_has_a_row_and_a_description(name):
    row = dict(zip(COLUMNS, next(row for row in method_rows() if row[0] == name), strict=True))
    assert all(row.values())
    assert row["source"] in ("as published", "recalled", "reconstructed", "ours")
    assert CATALOGUE[name].card().paper in describe(CATALOGUE[name])


def test_the_page_of_methods_is_up_to_date():
    assert (DOCS / "methods.md").read_text(encoding="utf-8") == methods_page()
