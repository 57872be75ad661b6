"""The command line: tables in, models and pages out, and a sentence for every bad file."""

import gzip
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import xrisk

click = pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from click.testing import CliRunner  # noqa: E402

from xrisk.cli import main  # noqa: E402
from xrisk.cli.app import app  # noqa: E402
from xrisk.tables import TableModel  # noqa: E402


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    race = rng.choice(["Black", "White"], n, p=[0.3, 0.7])
    age = rng.integers(18, 80, n).astype(float)
    job = rng.choice(["clerk", "cook", "pilot"], n)
    score = (age - 45.0) / 15.0 * np.where(race == "Black", -0.5, 1.0) + (job == "pilot") + 0.5 * rng.normal(size=n)
    age[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "race": race,
            "sex": rng.choice(["f", "m"], n),
            "age": age,
            "job": job,
            "y": np.where(score > 0.2, "yes", "no"),
        }
    )


@pytest.fixture
def table(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.fixture(scope="module")
def fitted_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    people().to_csv(folder / "people.csv", index=False)
    fit_json(folder / "people.csv", "--groups", "race", "--save", "robust", "--out", folder / "m.xrisk")
    return folder / "m.xrisk"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def fit_json(path, *words, target="y"):
    done = run("fit", path, "--target", target, "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def write(tmp_path, text, name="data.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


def lines(n=40, header="a,g,y", separator=","):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.3f},{'uv'[k % 2]},{int(rng.random() < 0.5)}" for k in range(n)]
    return "\n".join([header, *rows]).replace(",", separator) + "\n"


def test_fit_writes_a_model_and_a_page(table, tmp_path):
    model, page = tmp_path / "m.xrisk", tmp_path / "r.html"
    done = run(
        "fit", table, "--target", "y", "--groups", "race,sex", "--alpha", "0.3", "--out", model, "--report", page
    )
    assert done.exit_code == 0, done.output
    assert "target, classification" in done.stdout
    assert "Missing values in 'age'" in done.stdout
    assert "standardised" in done.stdout
    assert "certified" in done.stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert isinstance(xrisk.load(model), TableModel)


def test_evaluate_applies_the_encoding_that_fit_has_stored(table, tmp_path):
    model, others = tmp_path / "m.xrisk", tmp_path / "others.csv"
    fit_json(table, "--groups", "race,sex", "--out", model)
    frame = people(120, seed=1)[["y", "job", "age", "sex", "race"]]
    frame.loc[0, "job"] = "never seen"
    frame.to_csv(others, index=False)
    done = run("evaluate", model, others, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    guess = xrisk.load(model).predict(pd.read_csv(others))
    assert found["overall"]["score"] == pytest.approx((guess == frame["y"]).mean())
    assert found["rows"] == 120
    assert run("evaluate", model, others).exit_code == 0


def test_json_tells_what_the_page_tells(table, tmp_path):
    page = tmp_path / "r.html"
    told = fit_json(table, "--groups", "race", "--report", page)
    assert [model["key"] for model in told["models"]] == ["erm", "reweighted", "robust"]
    assert told["certified"]
    assert told["certificate"]["relative"] <= 1e-3
    text = page.read_text(encoding="utf-8")
    assert f'"primal": {told["certificate"]["primal"]}' in text


def test_the_same_seed_gives_the_same_numbers(table):
    first, again = (fit_json(table, "--groups", "race", "--seed", 3)["models"] for _ in range(2))
    for model in (*first, *again):
        model.pop("seconds")
    assert first == again


def test_groups_are_no_features_unless_asked(table):
    kinds = {entry["name"]: entry["kind"] for entry in fit_json(table, "--groups", "race,sex")["columns"]}
    assert kinds["race"] == kinds["sex"] == "group"
    told = fit_json(table, "--groups", "race,sex", "--groups-as-features")
    assert [entry["kind"] for entry in told["columns"] if entry["name"] == "race"] == ["group", "category"]


def test_a_target_of_many_numbers_is_a_regression_and_groups_of_many_numbers_are_bins(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "age": rng.integers(18, 90, 200)})
    frame["y"] = 2.0 * frame["x"] + rng.normal(size=200)
    frame.to_csv(tmp_path / "n.csv", index=False)
    told = fit_json(tmp_path / "n.csv", "--groups", "age", "--bins", 3, "--out", tmp_path / "m.xrisk")
    assert told["task"] == "regression"
    assert told["metric"] == "root mean squared error"
    assert told["data"]["groups"] == 3
    assert run("evaluate", tmp_path / "m.xrisk", tmp_path / "n.csv").exit_code == 0


def test_without_groups_the_classes_are_the_groups(table):
    told = fit_json(table)
    assert {group["name"] for group in told["groups"]} == {"y=no", "y=yes"}


def test_of_several_strengths_the_best_is_chosen(table):
    told = fit_json(table, "--groups", "race", "--l2", "1e-3,100")
    assert {model["l2"] for model in told["models"]} <= {1e-3, 100.0}
    assert told["settings"]["l2"] == [1e-3, 100.0]


def test_the_rows_of_the_verdict_are_apart_from_those_that_choose(table):
    sizes = fit_json(table, "--groups", "race", "--l2", "1e-3,100", "--test", "0.2")["data"]
    assert (sizes["train_rows"] + sizes["validation_rows"] + sizes["test_rows"], sizes["test_rows"]) == (300, 60)
    one = fit_json(table, "--groups", "race")
    assert (one["data"]["test_rows"], one["judged_on"]) == (0, "validation")
    assert fit_json(table, "--groups", "race", "--l2", "1e-3,100")["judged_on"] == "test"


@pytest.mark.parametrize(("kept", "index"), [("erm", 0), ("reweighted", 1), ("robust", 2)])
def test_the_model_that_is_asked_for_is_saved(table, tmp_path, kept, index):
    told = fit_json(table, "--groups", "race", "--save", kept, "--out", tmp_path / "m.xrisk")
    assert told["saved"] == kept
    model = xrisk.load(tmp_path / "m.xrisk")
    assert model.groups == ("Black", "White")
    assert (model.model.alpha, len(model.model.groups_)) == ((1.0, 1), (1.0, 2), (0.1, 2))[index]
    done = json.loads(run("evaluate", tmp_path / "m.xrisk", table, "--json").stdout)
    assert done["groups_not_trained_on"] == []


def test_unless_told_otherwise_the_recommended_model_is_saved(table, tmp_path):
    told = fit_json(table, "--groups", "race", "--out", tmp_path / "m.xrisk")
    assert told["saved"] == told["recommended"] == told["verdict"]["recommended"]


def test_the_metric_that_is_asked_for_judges_and_is_named(table, tmp_path):
    model = tmp_path / "m.xrisk"
    words = ("--groups", "race", "--metric", "neg_log_loss", "--out", model)
    done = run("fit", table, "--target", "y", *words)
    assert done.exit_code == 0, done.output
    told = " ".join(done.stdout.split())
    assert re.search(r"log loss on \d+ validation rows", told)
    assert "Trained on the logistic loss, scored by log loss." in told
    assert "Judged by log loss in the worst of" in told
    done = run("evaluate", model, table, "--metric", "neg_log_loss")
    assert "scored by log loss" in " ".join(done.stdout.split())


def test_errors_of_a_regression_may_be_absolute(tmp_path):
    path = write(tmp_path, "a,g,y\n" + "".join(f"{k % 7},{'uv'[k % 2]},{k % 11 / 3}\n" for k in range(160)))
    told = fit_json(
        path, "--groups", "g", "--task", "regression", "--metric", "neg_mean_absolute_error", "--min-group-size", 10
    )
    assert told["metric"] == "mean absolute error"
    assert told["models"][0]["worst"]["score"] < 3.0


def test_a_group_of_few_rows_is_folded_in_fit_and_shown_apart_in_evaluate(table, tmp_path):
    frame = people()
    frame.loc[:7, "race"] = "Few"
    frame.to_csv(table, index=False)
    done = run("fit", table, "--target", "y", "--groups", "race", "--out", tmp_path / "m.xrisk")
    said = " ".join(done.stdout.split())
    assert "fewer than 30 rows, left out of the verdict" in said
    assert "Trained on the logistic loss, scored by accuracy" in said
    assert "We recommend the simplest model" in said
    done = run("evaluate", tmp_path / "m.xrisk", table)
    assert "fewer than 30 rows, left out of the verdict" in done.stdout
    assert "Left out: 1 group with fewer than 30 rows." in " ".join(done.stdout.split())
    found = json.loads(run("evaluate", tmp_path / "m.xrisk", table, "--min-group-size", 5, "--json").stdout)
    assert found["min_group_size"] == 5
    assert found["worst"] == found["groups"][0]


def test_a_limit_that_ran_out_is_exit_code_three(table):
    done = run("fit", table, "--target", "y", "--groups", "race", "--tol", "1e-15")
    assert done.exit_code == 3
    assert "not certified" in done.stdout


def test_text_from_files_cannot_command_the_terminal(tmp_path):
    path = write(tmp_path, lines().replace("u,", "\x1b[31mred[/bold],"))
    done = run("fit", path, "--target", "y", "--groups", "g")
    assert done.exit_code == 0, done.output
    assert "\x1b[31m" not in done.stdout
    assert "red[/bold]" in done.stdout


GOOD = {
    "byte order mark": ("\ufeff" + lines(), ""),
    "semicolons": (lines(separator=";"), "semicolon"),
    "tabs": (lines(separator="\t"), "tab"),
    "quotes": (lines(header='"a","g","y"').replace("u,", '"u, ""u""",'), ""),
    "line ends of Windows": (lines().replace("\n", "\r\n"), ""),
    "line ends of CR alone": (lines().replace("\n", "\r"), ""),
    "line ends of several kinds": (lines().replace("\n", "\r\n", 10).replace("1\n", "1\r"), ""),
    "blank lines": (lines().replace("\n", "\n\n"), ""),
    "blanks after commas": (lines(separator=", "), ""),
    "unicode header": (lines(header="größe,g,y"), "größe"),
    "no name": (lines(header=",g,y"), "has no name"),
    "missing targets": (lines().replace("v,1", "v,"), "rows without a target are left out"),
    "missing groups": (lines().replace(",v,", ",,"), "20 rows have no group"),
    "infinite numbers": (lines() + "inf,u,1\n" * 4, "Missing values"),
    "huge numbers": (lines() + "1e300,u,1\n", ""),
    "tiny group": (lines() + "0.1,w,1\n", "fewer than 10 rows"),
}


@pytest.mark.parametrize(("text", "said"), GOOD.values(), ids=GOOD)
def test_odd_files_are_read(tmp_path, text, said):
    done = run("fit", write(tmp_path, text), "--target", "y", "--groups", "g")
    assert done.exit_code == 0, done.output
    assert said in " ".join(done.stdout.split())


def test_of_many_columns_the_first_are_shown_and_the_others_counted(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 100)), columns=[f"c{j}" for j in range(100)])
    frame.assign(g=np.arange(60) % 2, y=np.arange(60) % 3 % 2).to_csv(tmp_path / "wide.csv", index=False)
    done = run("fit", tmp_path / "wide.csv", "--target", "y", "--groups", "g")
    assert "c37" in done.stdout
    assert "c38" not in done.stdout
    assert "… 62 more" in done.stdout


def test_useless_columns_are_left_out_and_said(tmp_path):
    rows = lines().splitlines()
    wide = [rows[0] + ",none,same,id,text"] + [f"{row},,7,{k},t{k}" for k, row in enumerate(rows[1:])]
    told = fit_json(write(tmp_path, "\n".join(wide)), "--groups", "g")
    why = {entry["name"]: entry["detail"] for entry in told["columns"] if entry["kind"] == "left out"}
    assert why == {
        "none": "it has no values",
        "same": "it is the same on every row",
        "id": "it numbers the rows",
        "text": "its text differs on most rows",
    }


def test_a_gzipped_file_is_read(tmp_path):
    assert fit_json(write(tmp_path, gzip.compress(lines().encode()), "data.csv.gz"), "--groups", "g")


def test_parquet_is_read_where_pyarrow_is(tmp_path):
    pytest.importorskip("pyarrow")
    people().to_parquet(tmp_path / "people.parquet")
    assert fit_json(tmp_path / "people.parquet", "--groups", "race")["data"]["rows"] == 300


BAD = {
    "empty": ("", "is empty"),
    "blank": (" \n \n", "is empty"),
    "header only": ("a,g,y\n", "has a header but no rows"),
    "one row": ("a,g,y\n1,u,1\n", "has 1 row with a target"),
    "not UTF-8": (lines().encode() + b"\xff\xfe,u,1\n", "is not UTF-8 text: byte 0xff in line 42"),
    "zero bytes": ("a\0,g,y\n1,u,1\n", "zero bytes"),
    "row too long": (lines() + "1,u,1,9\n", "line 42 has 4 fields, the header has 3"),
    "row too short": (lines() + "1,u\n", "line 42 has 2 fields, the header has 3"),
    "open quote": (lines() + '1,"u,1\n', "cannot be read as CSV"),
    "header too long": ("a" * 200_000 + ",g,y\n1,u,1\n", "its first line is no list of names"),
    "not UTF-8 under CR": (lines().encode().replace(b"\n", b"\r") + b"\xff,u,1\r", "byte 0xff in line 42"),
    "decimal commas": (lines(separator=";").replace(".", ","), "holds numbers with commas, such as '0,126'"),
    "thousands": (lines().replace("\n", ',"1,234"\n').replace('y,"1,234"', "y,b"), "such as '1,234': write decimals"),
    "row of one field": (lines() + "1\n", "line 42 has 1 field, the header has 3"),
    "name twice": (lines(header="g,g,y"), "2 columns named 'g'"),
    "no target": (lines(header="a,g,z"), "there is no column 'y'"),
    "no group": (lines(header="a,h,y"), "there is no column 'g'"),
    "one class": ("a,g,y\n" + "1,u,1\n2,v,1\n" * 10, "holds one class only, '1'"),
    "no targets": ("a,g,y\n" + "1,u,\n2,v,\n" * 10, "the target 'y' has no values"),
    "one column": ("y\n" + "0\n1\n" * 10, "there is no column 'g'"),
    "no features": ("g,y\n" + "u,0\nv,1\n" * 10, "no column left to predict from"),
    "too many classes": ("a,g,y\n" + "".join(f"{k % 7},u,t{k}\n" for k in range(150)), "holds 150 classes"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_gets_one_sentence_and_exit_code_two(tmp_path, text, said):
    done = run("fit", write(tmp_path, text), "--target", "y", "--groups", "g")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--alpha", "0"), "alpha must"),
        (("--l2", "-1"), "l2 must"),
        (("--validation", "1"), "validation must be between 0 and 1"),
        (("--validation", "0"), "validation must be between 0 and 1, got 0"),
        (("--loss", "squared"), "loss must be one of"),
        (("--metric", "neg_mean_squared_error"), "metric must be one of accuracy, balanced_accuracy, neg_log_loss for"),
        (("--task", "regression"), "must hold numbers for regression"),
        (("--drop", "nobody"), "there is no column 'nobody'"),
        (("--test", "0.8"), "validation and test must be positive and leave rows to train on, got 0.25 and 0.8"),
        (("--bins", "1"), "--bins must be at least 2"),
        (("--out", "no/such/folder/m.xrisk"), "its folder does not exist"),
        (("--out", "/dev/null"), "/dev/null cannot be written: it is a device or a pipe"),
        (("--tol", "0"), "tol must be positive"),
    ],
)
def test_a_bad_option_gets_one_sentence_and_exit_code_two(table, words, said):
    done = run("fit", table, "--target", "y", "--groups", "race", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [("fit", "x.csv", "--target", "y"), ("demo",)])
def test_a_seed_that_is_none_is_refused(command):
    done = run(*command, "--seed", -1)
    assert done.exit_code == 2
    assert "Invalid value for '--seed': -1 is not in the range" in done.stderr


def test_why_no_column_is_left_is_told(tmp_path):
    path = write(tmp_path, "a,g,y\n" + "".join(f"no. {k},{'uv'[k % 2]},{k % 3 % 2}\n" for k in range(60)))
    assert (
        "; 'a' is left out: its text differs on most rows" in run("fit", path, "--target", "y", "--groups", "g").stderr
    )


def test_the_largest_numbers_are_read_without_a_warning(tmp_path):
    path = write(
        tmp_path, "a,g,y\n" + "".join(f"{'-' * (k % 2)}1e308,{'uv'[k % 4 // 2]},{k % 3 % 2}\n" for k in range(80))
    )
    assert run("fit", path, "--target", "y", "--groups", "g").exit_code == 0


def test_a_regression_needs_groups(tmp_path):
    path = write(tmp_path, "a,y\n" + "".join(f"{k % 7},{k / 3}\n" for k in range(60)))
    done = run("fit", path, "--target", "y")
    assert done.exit_code == 2
    assert "groups must be given" in done.stderr


def test_files_that_do_not_exist_are_named(tmp_path, table):
    assert "nobody.csv does not exist" in run("fit", tmp_path / "nobody.csv", "--target", "y").stderr
    assert "is not a file" in run("fit", tmp_path, "--target", "y").stderr
    assert "m.xrisk does not exist" in run("evaluate", tmp_path / "m.xrisk", table).stderr


def test_numbers_with_commas_may_be_categories(tmp_path):
    path = write(tmp_path, lines(header="a;g;y", separator=";").replace("u;", "1,2;").replace("v;", "3;"))
    assert fit_json(path, "--groups", "y", "--categorical", "g")
    assert run("fit", path, "--target", "y", "--groups", "y").exit_code == 2
    assert fit_json(path, "--groups", "y", "--drop", "g")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines() + "0.1,u,\n", "1 row without a target is left out."),
        (lines() + "0.1,u,\n" * 2, "2 rows without a target are left out."),
        (lines() + "0.1,,1\n", "1 row has no group in at least one column"),
        (lines() + "0.1,w,1\n", "1 of 3 groups has fewer than 10 rows"),
    ],
)
def test_one_row_is_not_told_as_rows(tmp_path, text, said):
    told = fit_json(write(tmp_path, text), "--groups", "g")
    assert said in " ".join(told["notes"])


def without(model, name):
    delattr(model.model, name)


def of_model(name, value):
    return lambda model: setattr(model.model, name, value)


def of_encoding(name, value):
    return lambda model: setattr(model, "encoding", model.encoding._replace(**{name: value}))


WRONG_MODELS = {
    "no coef_": (lambda model: without(model, "coef_"), "coef_ must be an array of finite numbers, got None"),
    "no intercept_": (lambda model: without(model, "intercept_"), "intercept_ must be an array of finite numbers"),
    "no groups_": (lambda model: without(model, "groups_"), "groups_ must be the names of groups, got None"),
    "no classes_": (lambda model: without(model, "classes_"), "classes_ must be an array of at least two classes"),
    "coef_ of text": (of_model("coef_", "text"), "coef_ must be an array of finite numbers, got 'text'"),
    "coef_ too short": (of_model("coef_", np.ones((1, 2))), r"got shape (1, 2)"),
    "coef_ of NaN": (lambda model: model.model.coef_.fill(np.nan), "coef_ must be an array of finite numbers"),
    "coef_ of whole numbers": (of_model("coef_", np.ones((1, 3), dtype=int)), "coef_ must be an array of finite"),
    "a class twice": (of_model("classes_", np.array(["a", "a"])), "at least two classes, each once"),
    "stop_ = 5": (of_model("stop_", 5), "stop_ must be a Stop, got 5"),
    "trace_ of numbers": (of_model("trace_", (1, 2)), "trace_ must be a tuple of trace points"),
    "risks of one group": (of_model("group_risk_", np.ones(1)), "group_risk_ must have a number for each"),
    "tol = 'a'": (of_model("tol", "a"), "tol must be positive, got 'a'"),
    "fit_intercept = 'no'": (of_model("fit_intercept", "no"), "fit_intercept must be True or False, got 'no'"),
    "groups_ = 5": (of_model("groups_", 5), "groups_ must be the names of groups, got 5"),
    "groups of numbers": (lambda model: model.set_params(groups=(1,)), "groups must be names of groups, got (1,)"),
    "groups_ of numbers": (of_model("groups_", (1, 2)), "groups_ must be the names of groups"),
    "encoding = None": (lambda model: model.set_params(encoding=None), "encoding must be that of a table, got None"),
    "model = None": (lambda model: model.set_params(model=None), "model must be a fitted linear model, got None"),
    "columns = 5": (of_encoding("columns", 5), "columns of TableEncoding must be tuple, got 5"),
    "columns of numbers": (of_encoding("columns", (5,)), "columns must be columns of a table, got 5"),
    "no columns": (of_encoding("columns", ()), "columns must hold at least one"),
    "groups = None": (of_encoding("groups", None), "groups of TableEncoding must be tuple, got None"),
    "target = 5": (of_encoding("target", 5), "target of TableEncoding must be str, got 5"),
    "another task": (of_encoding("task", "regression"), "model must be one of the task of its table"),
    "no task": (of_encoding("task", "tasks"), "task must be 'classification' or 'regression', got 'tasks'"),
}


@pytest.mark.parametrize(("spoil", "said"), WRONG_MODELS.values(), ids=WRONG_MODELS)
def test_a_well_formed_file_of_a_wrong_model_is_refused_in_a_sentence(table, fitted_model, tmp_path, spoil, said):
    model = xrisk.load(fitted_model)
    spoil(model)
    xrisk.save(model, tmp_path / "wrong.xrisk")
    done = run("evaluate", tmp_path / "wrong.xrisk", table)
    assert done.exit_code == 2, done.output
    assert "wrong.xrisk cannot be loaded: " in done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_no_model_is_refused_in_a_sentence(tmp_path, table):
    done = run("evaluate", write(tmp_path, "no model", "m.xrisk"), table)
    assert done.exit_code == 2
    assert "cannot be loaded" in done.stderr
    xrisk.save(xrisk.GroupDROClassifier(), tmp_path / "bare.xrisk")
    done = run("evaluate", tmp_path / "bare.xrisk", table)
    assert done.exit_code == 2
    assert "holds a GroupDROClassifier" in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop(columns="age"), "there is no column 'age'"),
        (lambda frame: frame.drop(columns="race"), "there is no column 'race'"),
        (lambda frame: frame.assign(age="old"), "column 'age' must hold numbers, it holds 'old'"),
        (lambda frame: frame.assign(y=None), "has no values"),
    ],
)
def test_evaluate_refuses_a_table_of_other_columns(table, tmp_path, change, said):
    fit_json(table, "--groups", "race", "--out", tmp_path / "m.xrisk")
    change(people()).to_csv(tmp_path / "other.csv", index=False)
    done = run("evaluate", tmp_path / "m.xrisk", tmp_path / "other.csv")
    assert done.exit_code == 2
    assert said in done.stderr


def test_groups_never_seen_are_said(table, tmp_path):
    fit_json(table, "--groups", "race", "--out", tmp_path / "m.xrisk")
    people().assign(race="Other").to_csv(tmp_path / "other.csv", index=False)
    found = json.loads(run("evaluate", tmp_path / "m.xrisk", tmp_path / "other.csv", "--json").stdout)
    assert found["groups_not_trained_on"] == ["Other"]


def test_classes_never_seen_are_said(fitted_model, tmp_path):
    people().assign(y="perhaps").to_csv(tmp_path / "other.csv", index=False)
    found = json.loads(run("evaluate", fitted_model, tmp_path / "other.csv", "--json").stdout)
    assert found["classes_not_trained_on"] == ["perhaps"]
    assert "never predicted: perhaps." in run("evaluate", fitted_model, tmp_path / "other.csv").stdout


def python(*words, **options):
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **options)


def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 2
    assert capsys.readouterr().err == "The command line needs click: pip install 'xrisk[cli]'\n"


@pytest.mark.slow
def test_xrisk_can_be_imported_without_the_packages_of_the_command_line():
    code = "import sys; sys.modules.update(dict.fromkeys(('click', 'rich', 'jinja2', 'pandas'))); import xrisk.report"
    assert python("-c", f"{code}, xrisk.study, xrisk.tables, xrisk.objectives").returncode == 0


@pytest.mark.slow
def test_fit_and_evaluate_as_processes(table, tmp_path):
    model = tmp_path / "m.xrisk"
    done = python(
        "-W", "error", "-m", "xrisk.cli", "fit", table, "--target", "y", "--groups", "race,sex", "--out", model
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    done = python("-W", "error", "-m", "xrisk.cli", "evaluate", model, table, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 300


@pytest.mark.slow
def test_a_bad_file_as_a_process(tmp_path):
    done = python("-m", "xrisk.cli", "fit", write(tmp_path, ""), "--target", "y")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_demo_needs_no_files(tmp_path):
    done = python("-W", "error", "-m", "xrisk.cli", "demo", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["studies"]) == 3
    assert all(study["certified"] for study in told["studies"])
    assert (tmp_path / "xrisk-demo.html").stat().st_size > 10_000
