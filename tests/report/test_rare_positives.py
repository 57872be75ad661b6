"""The page about a study of rankings."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import xrisk
from tests.report.test_report import PERFECT, data_of, perfect, screen, tags_of
from xrisk.objectives import RarePositives
from xrisk.objectives.rare_positives import verdict
from xrisk.report import render, write_report
from xrisk.report.rankings import chance, region, roc_panels, threshold_name
from xrisk.study import Difference, compare
from xrisk.tables import RankedClasses, parts

pytest.importorskip("jinja2")

NASTY = "<script>alert('&')</script>"
HALF = RankedClasses("no", "yes", 0.5, 0.5)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    score = X[:, 0] + X[:, 1] + rng.standard_normal(600)
    y = score > np.quantile(score, 0.9)
    return parts(X, y, y)


@pytest.fixture(scope="module")
def study(rows):
    model = xrisk.TwoWayPartialAUCClassifier(anchor=0.1, start="logistic", random_state=0)
    names = {"title": f"About {NASTY}", "notes": (f"Note {NASTY}",)}
    return compare(RarePositives(model, ("no", NASTY)), *rows, **names)


@pytest.fixture(scope="module")
def one_way(rows):
    return compare(RarePositives(xrisk.PartialAUCClassifier(0.6, surrogate="convex", random_state=0)), *rows)


def curve_panels(study):
    return roc_panels(study.arms, study.requested, study.objective.ranked)


@pytest.fixture(scope="module")
def page(study):
    return render(study)


@pytest.fixture(scope="module")
def tags(page):
    return tags_of(page)


def test_the_numbers_in_the_page_are_those_of_the_study(study, page):
    (found,) = data_of(page)
    assert found == json.loads(json.dumps(study.to_dict()))
    assert all(f"<td>{arm.test.score:.3f}<small>" in page for arm in study.arms)


def test_peoples_text_is_escaped(page):
    assert NASTY not in page
    assert "About &lt;script&gt;" in page


def test_the_page_asks_nothing_of_a_network(page, tags):
    assert not re.search(r"https?://|@import|url\(", page)
    assert not any("src" in attrs for _, attrs in tags)
    assert all(attrs.get("type") == "application/json" for tag, attrs in tags if tag == "script")


def test_pictures_are_described_and_tables_captioned(tags):
    assert all(attrs.get("aria-label") for _, attrs in tags if attrs.get("role") == "img")
    kinds = [tag for tag, _ in tags]
    assert kinds.count("table") == kinds.count("caption") == 2


def test_the_curves_of_all_models_are_drawn_in_both_panels(study, tags):
    drawn = [attrs["class"] for tag, attrs in tags if tag == "polyline" and attrs["class"].startswith("path")]
    assert drawn == [f"path {arm.key}" for arm in study.arms] * 2
    assert [attrs["class"] for tag, attrs in tags if tag == "polygon"] == ["inside"] * 2


def test_the_share_of_the_region_that_is_filled_is_the_partial_auc(study):
    for panel in curve_panels(study):
        x, y = np.array(panel["area"]).T
        area = 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))
        whole = panel["region"]["width"] * panel["region"]["height"]
        assert area / whole == pytest.approx(study.requested.test.score, abs=2e-3)


def test_curves_rise_from_corner_to_corner(study):
    whole = curve_panels(study)[0]
    for _, points in whole["lines"]:
        assert (points[0], points[-1]) == ((0.0, whole["height"]), (100.0, 0.0))
        assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in itertools.pairwise(points))


def test_where_everything_counts_there_is_one_panel(study):
    model = xrisk.TwoWayPartialAUCClassifier(min_tpr=0.0, max_fpr=1.0)
    everything = study._replace(objective=replace(study.objective, model=model))
    assert len(curve_panels(study)) == 2
    assert len(curve_panels(everything)) == 1


def test_a_curve_outside_the_region_leaves_it_empty(study):
    arm = study.requested
    low = arm.test.curve._replace(
        fpr=np.array([0.0, 1.0, 1.0]), tpr=np.array([0.0, 0.1, 1.0]), polygon=np.empty((0, 2))
    )
    outside = arm._replace(test=arm.test._replace(curve=low))
    page = render(study._replace(arms=(*study.arms[:-1], outside)))
    assert "<polygon" not in page


def test_a_bounded_surrogate_is_said_to_have_no_certificate(page):
    assert "A bounded surrogate is not convex and has no certificate" in page
    assert "It is regularised towards its start with strength 0.1." in page


@pytest.mark.slow
def test_a_convex_surrogate_shows_its_certificate(one_way):
    page = render(one_way)
    headline = one_way.objective.proof(one_way).headline
    assert headline.startswith("Proved optimal to within")
    assert headline in page
    assert "has no certificate" not in page


def test_a_perfect_fit_of_a_convex_surrogate_is_said_to_be_perfect(one_way):
    from xrisk.cli.screen import show_study

    found = one_way._replace(arms=(*one_way.arms[:-1], perfect(one_way.requested)))
    page = render(found)
    assert f"<strong>{PERFECT}</strong>" in page
    assert "100.000\u202f%" not in page
    assert f"{PERFECT}. Any further decrease would be smaller" in screen(show_study, found)


def test_a_fit_that_was_cut_short_is_said_to_be(study):
    model = xrisk.TwoWayPartialAUCClassifier()
    model.__dict__.update(vars(study.requested.model), stop_=xrisk.Stop.SECONDS)
    cut = study._replace(arms=(*study.arms[:-1], study.requested._replace(model=model)))
    assert not cut.is_done
    assert f"The fit was cut short: {xrisk.Stop.SECONDS}." in cut.objective.proof(cut).text


def test_few_positives_are_said_in_the_page(study, page):
    assert "Few rows decide: of 15 validation rows" in page
    enough = study.requested._replace(test=study.requested.test._replace(positives=40))
    assert "Few rows decide" not in render(study._replace(arms=(*study.arms[:-1], enough)))


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (Difference("ranking", "logistic", 0.01, 0.2), "Ranking beats Logistic by +0.010 to +0.200"),
        (Difference("ranking", "logistic", -0.2, -0.01), "Logistic beats Ranking by +0.010 to +0.200"),
        (Difference("ranking", "logistic", -0.1, 0.1), "Ranking and Logistic cannot be told apart (-0.100 to +0.100)"),
    ],
)
def test_the_verdict_has_the_same_words_whoever_wins(study, difference, said):
    assert said in verdict(study._replace(verdict=study.verdict._replace(differences=(difference,))))


@pytest.mark.parametrize(
    ("ranked", "said", "threshold", "level"),
    [
        (HALF, "TPR ≥ 50 %, FPR ≤ 50 %", "positives caught at FPR ≤ 50 %", 0.0),
        (HALF._replace(max_fpr=1.0), "TPR ≥ 50 %", "false positives at TPR ≥ 50 %", 0.25),
        (HALF._replace(min_tpr=0.0, max_fpr=0.025), "FPR ≤ 2.5 %", "positives caught at FPR ≤ 2.5 %", 0.0125),
        (HALF._replace(min_tpr=0.0, max_fpr=1.0), "the whole curve", "false positives at TPR ≥ 0 %", 0.5),
    ],
)
def test_the_region_is_said_as_it_was_asked_for(ranked, said, threshold, level):
    assert region(ranked).replace("\u202f", " ") == said
    assert threshold_name(ranked).replace("\u202f", " ") == threshold
    assert chance(ranked) == pytest.approx(level)


def test_the_file_is_the_page(study, page, tmp_path):
    write_report(tmp_path / "r.html", study)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
