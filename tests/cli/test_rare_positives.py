"""Rare positives on the command line: a table in, a model and a page out, the partial AUC of others."""

import json

import numpy as np
import pytest

import xrisk

pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from tests.cli.test_cli import run  # noqa: E402
from xrisk.metrics import partial_auc_score  # noqa: E402
from xrisk.tables import RankedClasses, TableModel  # noqa: E402

TWO_WAY = ("--objective", "two-way-partial-auc")
ONE_WAY = ("--objective", "partial-auc")


def patients(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    score = X[:, 0] + X[:, 1] + rng.standard_normal(n)
    ill = np.where(score > np.quantile(score, 0.85), "ill", "well")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "ward": rng.choice(["east", "west"], n), "y": ill})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranking")
    patients().to_csv(folder / "patients.csv", index=False)
    patients(300, seed=1).to_csv(folder / "others.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def table(folder):
    return folder / "patients.csv"


@pytest.fixture(scope="module")
def told(folder, table):
    words = ("--positive", "ill", "--save", "ranking", "--out", folder / "m.xrisk", "--report", folder / "r.html")
    done = run("fit", table, "--target", "y", *TWO_WAY, "--min-tpr", 0.4, "--max-fpr", 0.6, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_json_tells_what_was_asked_and_found(told):
    assert told["asked"] == {"negative": "well", "positive": "ill", "min_tpr": 0.4, "max_fpr": 0.6}
    assert [model["key"] for model in told["models"]] == ["logistic", "balanced", "ranking"]
    assert all(model["test"]["low"] <= model["test"]["score"] <= model["test"]["high"] for model in told["models"])
    assert told["recommended"] == told["verdict"]["recommended"]
    assert len(told["verdict"]["differences"]) == 3
    assert (told["saved"], told["judged_on"], told["data"]["validation_positives"]) == ("ranking", "validation", 15)
    assert told["certificate"] is None


def test_the_page_has_the_curves_and_the_sentences(told, folder):
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count('<polyline class="path ranking"') == 2
    assert "has no certificate" in page
    assert f'"recommended": "{told["recommended"]}"' in page


def test_the_model_has_no_groups_and_predicts_by_name(told, folder, table):
    model = xrisk.load(folder / "m.xrisk")
    assert isinstance(model, TableModel)
    assert model.ranked == RankedClasses("well", "ill", 0.4, 0.6)
    assert (model.groups, model.encoding.groups) == ((), ())
    frame = pd.read_csv(table)
    likely = model.predict_proba(frame)[:, 1] > 0.5
    assert (model.predict(frame) == np.where(likely, "ill", "well")).all()
    assert frame["y"][likely].eq("ill").mean() > 0.6


def test_evaluate_scores_by_the_partial_auc_of_the_region(told, folder):
    done = run("evaluate", folder / "m.xrisk", folder / "others.csv", "--json")
    assert done.exit_code == 0, done.output
    found, frame = json.loads(done.stdout), pd.read_csv(folder / "others.csv")
    scores = xrisk.load(folder / "m.xrisk").decision_function(frame)
    assert found["score"] == pytest.approx(partial_auc_score(frame["y"] == "ill", scores, min_tpr=0.4, max_fpr=0.6))
    assert found["low"] <= found["score"] <= found["high"]
    assert (found["rows"], found["positives"]) == (300, 45)


def test_evaluate_shows_a_table_without_groups(told, folder):
    done = run("evaluate", folder / "m.xrisk", folder / "others.csv")
    assert done.exit_code == 0, done.output
    assert "95 % interval" in done.stdout
    assert "TPR ≥ 40" in done.stdout
    assert "group" not in done.stdout


def test_evaluate_leaves_out_rows_of_other_classes_and_without_one(told, folder, tmp_path):
    frame = patients(200, seed=2)
    frame.loc[[0, 1], "y"] = "unknown"
    frame.loc[2, "y"] = None
    frame.to_csv(tmp_path / "odd.csv", index=False)
    done = run("evaluate", folder / "m.xrisk", tmp_path / "odd.csv")
    assert "their rows are left out: unknown." in done.stdout
    assert "1 row without a target is left out." in done.stdout
    found = json.loads(run("evaluate", folder / "m.xrisk", tmp_path / "odd.csv", "--json").stdout)
    assert (found["rows"], found["rows_without_target"], found["classes_not_trained_on"]) == (197, 1, ["unknown"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metric", "accuracy"), "--metric goes with --objective group-dro, not with two-way-partial-auc"),
        (
            ("--min-group-size", "5"),
            "--min-group-size goes with --objective group-dro or dro, not with two-way",
        ),
    ],
)
def test_evaluate_refuses_options_of_groups(told, folder, words, said):
    done = run("evaluate", folder / "m.xrisk", folder / "others.csv", *words)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_evaluate_refuses_a_table_of_too_few_positives(told, folder, tmp_path):
    patients(20, seed=3).to_csv(tmp_path / "few.csv", index=False)
    done = run("evaluate", folder / "m.xrisk", tmp_path / "few.csv")
    assert done.exit_code == 2
    assert "must hold at least 5 of class 'ill', they hold 3" in done.stderr


def test_the_terminal_shows_the_models_the_verdict_and_what_is_proved(table):
    done = run("fit", table, "--target", "y", *ONE_WAY, "--min-tpr", "0.5", "--surrogate", "convex")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split()).replace("\u202f", " ")
    assert "partial AUC (TPR ≥ 50 %) on 100 validation rows, 85 positive" in words
    assert (
        "The positive class is 'well', 85 % of the training rows. It is the more frequent class; --positive names"
        in words
    )
    assert "Proved optimal to within" in words
    assert "We recommend the simplest model that no other significantly outperforms" in words
    assert "groups" not in words


def test_a_limit_that_runs_out_has_exit_code_three(table):
    done = run("fit", table, "--target", "y", *TWO_WAY, "--max-seconds", "1e-6", "--json")
    assert done.exit_code == 3, done.output
    assert "Ranking: " in " ".join(json.loads(done.stdout)["notes"])


@pytest.mark.slow
def test_of_several_strengths_the_verdict_is_on_test_rows(table):
    done = run("fit", table, "--target", "y", *TWO_WAY, "--positive", "ill", "--l2", "1e-3,1", "--json")
    found = json.loads(done.stdout)
    assert (found["judged_on"], found["data"]["test_rows"]) == ("test", 100)
    assert {model["l2"] for model in found["models"][:2]} <= {1e-3, 1.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*TWO_WAY, "--groups", "ward"),
            "--groups goes with --objective group-dro or dro, not with two-way",
        ),
        ((*TWO_WAY, "--alpha", "0.1"), "--alpha goes with --objective group-dro"),
        (
            (*ONE_WAY, "--max-fpr", "0.5"),
            "--max-fpr goes with --objective two-way-partial-auc or p-norm-push, not with partial-auc",
        ),
        (
            ("--min-tpr", "0.5"),
            "--min-tpr goes with --objective two-way-partial-auc or partial-auc, not with group-dro",
        ),
        (("--positive", "ill"), "--positive goes with --objective two-way-partial-auc or partial-auc"),
        ((*TWO_WAY, "--positive", "dead"), "--positive must be one of the classes 'ill' and 'well', got 'dead'"),
        ((*TWO_WAY, "--save", "robust"), "--save must be one of recommended, logistic, balanced, ranking for"),
        (("--save", "ranking"), "--save must be one of recommended, erm, reweighted, robust for group-dro"),
        ((*TWO_WAY, "--min-tpr", "1"), "min_tpr"),
        ((*TWO_WAY, "--max-fpr", "0"), "max_fpr"),
        ((*TWO_WAY, "--validation", "0.05"), "must hold at least 5 of class 'ill', they hold 3"),
        ((*TWO_WAY, "--target", "a"), "the target 'a' must hold two classes to be ranked, it holds 400"),
        ((*TWO_WAY, "--tol", "0"), "tol must be positive"),
        ((*TWO_WAY, "--drop", "nobody"), "there is no column 'nobody'"),
        ((*TWO_WAY, "--out", "no/such/folder/m.xrisk"), "its folder does not exist"),
    ],
)
def test_a_bad_option_gets_one_sentence_and_exit_code_two(table, words, said):
    done = run("fit", table, "--target", "y", *words, "--json")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def of_ranked(**values):
    return lambda model: model.set_params(ranked=model.ranked._replace(**values))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda model: model.set_params(ranked=5), "ranked must be two classes and a region, got 5"),
        (of_ranked(min_tpr=1.0), "min_tpr and max_fpr must leave a region, got 1.0 and 0.6"),
        (of_ranked(positive=3), "positive of RankedClasses must be str, got 3"),
        (lambda model: model.set_params(ranked=None), "model must be one of groups"),
        (lambda model: setattr(model.model, "classes_", np.array(["a", "b"])), "tells positive rows from others"),
    ],
)
def test_a_well_formed_file_of_a_wrong_model_is_refused_in_a_sentence(told, folder, tmp_path, spoil, said):
    model = xrisk.load(folder / "m.xrisk")
    spoil(model)
    xrisk.save(model, tmp_path / "wrong.xrisk")
    done = run("evaluate", tmp_path / "wrong.xrisk", folder / "others.csv")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_the_top_of_a_ranking_is_asked_for_by_a_word_of_its_own(table, tmp_path):
    """An objective that is one file: fitted, judged, saved, evaluated, with a page."""
    page, model = tmp_path / "page.html", tmp_path / "push.xrisk"
    words = ("--target", "y", "--objective", "p-norm-push", "--p", "8", "--positive", "ill")
    done = run("fit", table, *words, "--save", "ranking", "--out", model, "--report", page)
    assert done.exit_code == 0, done.output
    assert "partial AUC (FPR ≤ 10\u202f%)" in done.stdout
    assert "Proved optimal to within" in done.stdout
    assert "the p-norm, p = 8, of what the positives lose" in page.read_text()
    kept = xrisk.load(model)
    assert (kept.objective, kept.model.p) == ("p-norm-push", 8.0)
    found = json.loads(run("evaluate", model, table, "--json").stdout)
    assert found["asked"]["max_fpr"] == 0.1
    assert found["low"] <= found["score"] <= found["high"]


def test_a_model_of_an_objective_that_is_none_is_refused(table, tmp_path):
    model = tmp_path / "m.xrisk"
    run("fit", table, "--target", "y", *TWO_WAY, "--positive", "ill", "--out", model)
    kept = xrisk.load(model)
    xrisk.save(kept.set_params(objective="nothing"), model)
    done = run("evaluate", model, table)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "is a model of the objective 'nothing', which is none of" in done.stderr


def test_a_model_of_another_objective_than_it_says_is_refused(table, tmp_path):
    model = tmp_path / "m.xrisk"
    run("fit", table, "--target", "y", "--groups", "ward", "--out", model)
    xrisk.save(xrisk.load(model).set_params(objective="partial-auc"), model)
    done = run("evaluate", model, table)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "is no model of the objective 'partial-auc': it has no ranked" in done.stderr
