"""The tail of the loss on the command line: a table in, a model and a page out, the tail of others."""

import json

import numpy as np
import pytest

import xrisk

pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from tests.cli.test_cli import run  # noqa: E402
from xrisk.metrics import cvar  # noqa: E402
from xrisk.tables import TableModel  # noqa: E402

DRO = ("--objective", "dro")


def loans(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    owed = X[:, 0] + X[:, 1] + rng.standard_normal(n)
    paid = np.where(owed > 0, "late", "paid")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "town": rng.choice(["east", "west"], n), "owed": owed, "y": paid})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tail")
    frame = loans()
    frame.loc[[0, 7], "y"] = None
    frame.to_csv(folder / "loans.csv", index=False)
    loans(300, seed=1).to_csv(folder / "others.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def table(folder):
    return folder / "loans.csv"


def fitted(folder, table, *words):
    done = run("fit", table, *DRO, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def told(folder, table):
    files = ("--save", "robust", "--out", folder / "m.xrisk", "--report", folder / "r.html")
    return fitted(folder, table, "--target", "y", "--drop", "owed", "--groups", "town", *files)


@pytest.fixture(scope="module")
def numbers(folder, table):
    words = ("--ambiguity", "cvar", "--alpha", 0.3, "--drop", "y", "--save", "trimmed", "--out", folder / "n.xrisk")
    return fitted(folder, table, "--target", "owed", *words)


def test_json_tells_what_was_found(told):
    assert [model["key"] for model in told["models"]] == ["erm", "robust", "trimmed"]
    assert all(model["test"]["low"] <= model["test"]["tail"] <= model["test"]["high"] for model in told["models"])
    assert told["recommended"] == told["verdict"]["recommended"]
    assert (told["saved"], told["judged_on"], told["certified"]) == ("robust", "validation", True)
    assert {model["groups"]["worst"]["name"] for model in told["models"]} <= {"east", "west"}
    assert (told["settings"]["radius"], told["settings"]["strength"]) == (0.1, None)
    assert "alpha" not in told["settings"]


def test_heavy_rows_are_those_of_the_file(told, table):
    frame = pd.read_csv(table)
    for each in told["heaviest_rows"]:
        assert frame["y"][each["row"] - 1] == each["target"]


def test_a_regression_needs_no_groups(numbers):
    assert numbers["task"] == "regression"
    assert all(model["groups"] is None for model in numbers["models"])
    assert numbers["settings"]["alpha"] == 0.3


def test_heavy_rows_of_a_regression_are_those_of_the_file(numbers, table):
    frame = pd.read_csv(table)
    for each in numbers["heaviest_rows"]:
        assert frame["owed"][each["row"] - 1] == pytest.approx(each["target"])


def test_the_page_is_that_of_the_study(told, folder):
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count('<polyline class="path robust"') == 2
    assert f'"recommended": "{told["recommended"]}"' in page


def test_the_models_predict_from_tables(told, numbers, folder, table):
    model, other = xrisk.load(folder / "m.xrisk"), xrisk.load(folder / "n.xrisk")
    assert isinstance(model, TableModel)
    assert (model.tail, model.groups, other.groups, other.encoding.groups) == (0.1, ("east", "west"), (), ())
    frame = pd.read_csv(folder / "others.csv")
    assert (model.predict(frame) == frame["y"]).mean() > 0.7
    assert np.corrcoef(other.predict(frame), frame["owed"])[0, 1] > 0.7


def test_evaluate_tells_the_tail_of_the_losses(told, folder):
    done = run("evaluate", folder / "m.xrisk", folder / "others.csv", "--json")
    assert done.exit_code == 0, done.output
    found, frame = json.loads(done.stdout), pd.read_csv(folder / "others.csv")
    probability = xrisk.load(folder / "m.xrisk").predict_proba(frame)[:, 1]
    own = np.where(frame["y"] == "paid", probability, 1.0 - probability)
    assert found["tail"] == pytest.approx(cvar(-np.log(own), 0.1))
    assert found["mean"] == pytest.approx(-np.log(own).mean())
    assert found["accuracy"] == pytest.approx(np.mean(own > 0.5))
    assert found["groups"]["worst"]["name"] in ("east", "west")


def test_evaluate_of_a_regression_tells_r2(numbers, folder):
    found = json.loads(run("evaluate", folder / "n.xrisk", folder / "others.csv", "--json").stdout)
    assert 0.4 < found["r2"] < 1.0
    assert found["groups"] is None


def test_evaluate_shows_a_table_and_the_worst_group(told, folder):
    done = run("evaluate", folder / "m.xrisk", folder / "others.csv", "--min-group-size", "5")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert "worst 10 %" in words
    assert "among those with at least 5 rows:" in words


def test_evaluate_leaves_out_rows_of_other_classes_and_without_one(told, folder, tmp_path):
    frame = loans(80, seed=2)
    frame.loc[[0, 1], "y"] = "unknown"
    frame.loc[2, "y"] = None
    frame.to_csv(tmp_path / "odd.csv", index=False)
    done = run("evaluate", folder / "m.xrisk", tmp_path / "odd.csv")
    assert "their rows are left out: unknown." in done.stdout
    assert "1 row without a target is left out." in done.stdout
    assert "Few rows decide" in done.stdout
    found = json.loads(run("evaluate", folder / "m.xrisk", tmp_path / "odd.csv", "--json").stdout)
    assert (found["rows"], found["rows_without_target"], found["classes_not_trained_on"]) == (77, 1, ["unknown"])


def test_the_terminal_shows_models_proofs_rows_and_verdict(table):
    done = run("fit", table, "--target", "y", "--drop", "owed,town", *DRO)
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split()).replace("\u202f", " ")
    assert "loss on 100 validation rows" in words
    assert "Robust: Proved optimal to within" in words
    assert "Half of the robust model's weight lies on" in words
    assert "We recommend the simplest model that no other significantly outperforms" in words
    assert "group" not in words


def test_a_limit_that_runs_out_has_exit_code_three(table):
    done = run("fit", table, "--target", "y", *DRO, "--max-seconds", "1e-6", "--json")
    assert done.exit_code == 3, done.output
    assert not json.loads(done.stdout)["certified"]


def test_of_several_strengths_the_verdict_is_on_test_rows(table):
    done = run("fit", table, "--target", "y", "--drop", "owed", *DRO, "--l2", "1e-3,1", "--json")
    found = json.loads(done.stdout)
    assert (found["judged_on"], found["data"]["test_rows"]) == ("test", 100)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "nobody"), "there is no column 'nobody'"),
        (("--alpha", "0.2"), "--alpha goes with --ambiguity cvar, not with chi2"),
        (("--ambiguity", "cvar", "--alpha", "0.2", "--radius", "1"), "--radius goes with --ambiguity kl or chi2, not"),
        (("--ambiguity", "cvar", "--strength", "1"), "--strength goes with --ambiguity kl or chi2, not with cvar"),
        (("--ambiguity", "cvar", "--alpha", "0"), "alpha must lie in"),
        (("--ambiguity", "cvar", "--alpha", "nan"), "alpha must lie in"),
        (("--radius", "-1"), "--radius must be positive and finite, got -1"),
        (("--radius", "nan"), "--radius must be positive and finite, got nan"),
        (("--strength", "0"), "--strength must be positive and finite, got 0"),
        (("--outlier-fraction", "0"), "--outlier-fraction must be above 0 and below 0.5, got 0"),
        (("--outlier-fraction", "0.5"), "--outlier-fraction must be above 0 and below 0.5, got 0.5"),
        (("--outlier-fraction", "nan"), "--outlier-fraction must be above 0 and below 0.5, got nan"),
        (("--l2", "-1"), "l2 must be finite and not negative, got -1"),
        (("--tol", "0"), "tol must be positive"),
        (("--validation", "1.5"), "validation must be between 0 and 1, got 1.5"),
        (("--bins", "1"), "--bins must be at least 2, got 1"),
        (("--loss", "squared"), "loss must be one of"),
        (("--task", "regression"), "must hold numbers for regression, it holds text"),
        (("--groups", "nobody"), "there is no column 'nobody'"),
        (("--save", "ranking"), "--save must be one of recommended, erm, robust, trimmed for dro, got 'ranking'"),
        (("--divergence", "kl"), "--divergence goes with --objective group-dro, not with dro"),
        (("--metric", "accuracy"), "--metric goes with --objective group-dro, not with dro"),
        (("--min-tpr", "0.5"), "--min-tpr goes with --objective two-way-partial-auc or partial-auc, not with dro"),
        (("--out", "no/such/folder/m.xrisk"), "its folder does not exist"),
    ],
)
def test_a_bad_option_gets_one_sentence_and_exit_code_two(table, words, said):
    done = run("fit", table, "--target", "y", *DRO, *words, "--json")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--radius", "1"), "--radius goes with --objective dro, not with group-dro"),
        (("--ambiguity", "kl"), "--ambiguity goes with --objective dro, not with group-dro"),
        (("--save", "trimmed"), "--save must be one of recommended, erm, reweighted, robust for group-dro"),
    ],
)
def test_options_of_the_tail_are_refused_elsewhere(table, words, said):
    done = run("fit", table, "--target", "y", *words, "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_word_for_no_ambiguity_is_refused_with_those_there_are(table):
    done = run("fit", table, "--target", "y", *DRO, "--ambiguity", "wasserstein")
    assert done.exit_code == 2
    assert "'wasserstein' is not one of 'kl', 'chi2', 'cvar'" in done.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["a"] * 20, "the target 'y' holds one class only, 'a'"),
        ([None] * 20, "the target 'y' has no values"),
        ([None] * 15 + ["a", "b", "a", "b", "a"], "has 5 rows with a target, at least 10 are needed"),
    ],
)
def test_a_target_without_two_classes_is_refused(tmp_path, values, said):
    pd.DataFrame({"x": np.arange(20.0) ** 2 % 7, "y": values}).to_csv(tmp_path / "bad.csv", index=False)
    done = run("fit", tmp_path / "bad.csv", "--target", "y", *DRO)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_a_number_that_never_changes_is_refused(tmp_path):
    pd.DataFrame({"x": np.arange(20.0) ** 2 % 7, "y": [2.5] * 20}).to_csv(tmp_path / "flat.csv", index=False)
    done = run("fit", tmp_path / "flat.csv", "--target", "y", *DRO)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "the target 'y' is 2.5 on every row" in done.stderr


@pytest.mark.slow
def test_three_classes_are_fitted_and_scored(folder, tmp_path):
    frame = loans().drop(columns="y")
    frame["y"] = np.digitize(frame.pop("owed"), [-1.0, 1.0])
    frame.to_csv(tmp_path / "three.csv", index=False)
    words = ("--save", "robust", "--out", tmp_path / "m.xrisk")
    found = fitted(folder, tmp_path / "three.csv", "--target", "y", *words)
    assert found["certified"]
    assert [each["name"] for each in found["data"]["classes"]] == ["0", "1", "2"]
    told = json.loads(run("evaluate", tmp_path / "m.xrisk", tmp_path / "three.csv", "--json").stdout)
    assert told["accuracy"] > 0.6


def test_evaluate_refuses_a_metric(told, folder):
    done = run("evaluate", folder / "m.xrisk", folder / "others.csv", "--metric", "accuracy")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "--metric goes with --objective group-dro, not with dro" in done.stderr


def test_evaluate_refuses_a_table_of_other_classes(told, folder, tmp_path):
    loans(30).assign(y="other").to_csv(tmp_path / "other.csv", index=False)
    done = run("evaluate", folder / "m.xrisk", tmp_path / "other.csv")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no row is of a class that" in done.stderr


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda model: model.set_params(tail=5.0), "tail must be a fraction of the rows, in (0, 1], got 5.0"),
        (lambda model: model.set_params(tail=None), "model must be one of groups"),
        (lambda model: delattr(model.model, "sample_weights_"), "sample_weights_ must be an array of finite numbers"),
    ],
)
def test_a_well_formed_file_of_a_wrong_model_is_refused_in_a_sentence(told, folder, tmp_path, spoil, said):
    model = xrisk.load(folder / "m.xrisk")
    spoil(model)
    xrisk.save(model, tmp_path / "wrong.xrisk")
    done = run("evaluate", tmp_path / "wrong.xrisk", folder / "others.csv")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
