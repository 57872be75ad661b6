"""Generated tables do what they promise; loaders give the published data, or one sentence."""

import socket
import time
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from xrisk import datasets
from xrisk.datasets import (
    adult,
    covtype,
    finding,
    load_adult,
    load_covtype,
    load_french,
    make_groups,
    make_mdp,
    make_returns,
    make_spurious,
)
from xrisk.datasets.french import FILES
from xrisk.inner import Generated
from xrisk.metrics import worst_group_score

here = pytest.mark.skipif(
    datasets.find_file("adult_train.csv.gz") is None, reason="no Adult in XRISK_DATA or ../shared/data"
)
woods = pytest.mark.skipif(
    datasets.find_file("covtype.npz") is None, reason="no covtype.npz in XRISK_DATA or ../shared/data"
)
oracle = pytest.mark.skipif(datasets.find_file("a9a.npz") is None, reason="no a9a.npz in XRISK_DATA or ../shared/data")


def worst(model, table):
    return worst_group_score(table.y, model.predict(table.X), groups=table.groups)


@pytest.mark.parametrize("seed", range(3))
def test_plain_training_fails_on_the_minority_and_robust_training_does_not(seed):
    train, test = make_spurious(random_state=seed), make_spurious(8000, random_state=100 + seed)
    plain = LogisticRegression().fit(train.X, train.y)
    balance = train.y.size / (4.0 * np.bincount(train.groups)[train.groups])
    robust = LogisticRegression().fit(train.X, train.y, sample_weight=balance)
    assert worst(plain, test) < 0.5 < 0.75 < worst(robust, test)


def test_the_attribute_agrees_as_often_as_it_says():
    table = make_spurious(1000, agreement=0.9, random_state=0)
    np.testing.assert_array_equal(np.bincount(table.groups), [450, 50, 50, 450])


def test_groups_are_the_pairs_of_label_and_attribute():
    table = make_spurious(100, random_state=0)
    assert table.group_names == ("y=-1 × a=-1", "y=-1 × a=1", "y=1 × a=-1", "y=1 × a=1")
    np.testing.assert_array_equal(table.groups >= 2, table.y == 1)


@pytest.mark.parametrize("agreement", [0.001, 0.999])
def test_no_group_of_the_short_cut_is_empty(agreement):
    assert np.bincount(make_spurious(8, agreement=agreement, random_state=0).groups, minlength=4).min() == 1


@pytest.mark.parametrize("make", [make_spurious, make_groups])
def test_the_seed_decides(make):
    first, again, other = make(random_state=1), make(random_state=1), make(random_state=2)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)


@pytest.mark.parametrize("make", [make_spurious, make_groups])
def test_columns_and_groups_have_a_name_each(make):
    table = make(random_state=0)
    assert (len(table.feature_names), len(table.group_names)) == (table.X.shape[1], table.groups.max() + 1)


@pytest.mark.parametrize(("n_groups", "n"), [(1, 2), (7, 14), (50, 3000), (500, 1500)])
def test_groups_are_uneven_and_hold_both_labels(n_groups, n):
    table = make_groups(n_groups, n=n, random_state=0)
    sizes = np.bincount(table.groups)
    assert (sizes.sum(), sizes.size, np.all(np.diff(sizes) <= 0)) == (n, n_groups, True)
    assert len(set(zip(table.groups.tolist(), table.y.tolist(), strict=True))) == 2 * n_groups


def test_without_decay_groups_are_of_one_size():
    assert set(np.bincount(make_groups(10, n=100, decay=0.0, random_state=0).groups)) == {10}


WRONG = {
    "few rows": (lambda: make_spurious(3), "n must be at least 8, got 3"),
    "half a row": (lambda: make_spurious(10.5), "n must be a whole number"),
    "agreement": (lambda: make_spurious(agreement=1.0), "agreement must be between 0 and 1, got 1.0"),
    "no core": (lambda: make_spurious(n_core=0), "n_core must be at least 1"),
    "rows for groups": (lambda: make_groups(10, n=19), "n must be at least 20, got 19"),
    "decay": (lambda: make_groups(decay=-1.0), "decay must be finite and not negative, got -1.0"),
    "split": (lambda: load_adult("dev"), "split must be 'train', 'validation' or 'test', got 'dev'"),
    "validation": (lambda: load_adult("validation"), "needs random_state"),
}


@pytest.mark.parametrize(("call", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.fixture(scope="module")
def columns():
    return adult._adult_columns()


@pytest.fixture
def quick(monkeypatch, columns):
    monkeypatch.setattr(adult, "_adult_columns", lambda: columns)


@here
def test_adult_has_the_83_groups_of_the_paper(quick):
    table = load_adult()
    assert (len(table.group_names), table.X.shape) == (83, (31_896, 123))


@here
@pytest.mark.parametrize(
    ("split", "rows"), [("train", "of 22792 rows"), ("validation", "of 9769 rows"), ("test", "of 16281 rows")]
)
def test_every_split_of_adult_has_every_group(quick, split, rows):
    table = load_adult(split, random_state=0)
    assert rows in table.description
    assert np.unique(table.groups).size == 83


@here
def test_train_and_validation_of_adult_share_no_row(quick):
    parts = [adult._adult_split(split, 5) for split in ("train", "validation")]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(32_561))


@here
def test_groups_of_adult_agree_with_their_names(quick):
    table = load_adult("test")
    rich = np.array([name.startswith(">50K") for name in table.group_names])
    male = np.array(["× Male ×" in name for name in table.group_names])
    np.testing.assert_array_equal(rich[table.groups], table.y == 1)
    np.testing.assert_array_equal(male[table.groups], table.X[:, table.feature_names.index("sex=Male")] == 1)


@here
@oracle
def test_the_columns_of_adult_are_those_of_a9a(columns):
    with np.load(datasets.find_file("a9a.npz"), allow_pickle=False) as file:
        expected = np.vstack([file["X_train"], file["X_test"]])
    np.testing.assert_array_equal(adult._platt(columns, np.arange(48_842))[0], expected)


def openml(columns, roll=0):
    """Adult as scikit-learn gives it: categories as positions, a missing one as NaN."""
    data, categories = [], {}
    for name, entry in adult.PLATT.items():
        column = np.roll(columns[name], roll)
        if isinstance(entry, str):
            categories[name] = sorted(entry.split())
            position = np.searchsorted(categories[name], column).astype(float)
            column = np.where(column == "?", np.nan, position)
        data.append(column)
    target = np.roll(columns["income"], roll).astype(object)
    return SimpleNamespace(
        data=np.column_stack(data), target=target, feature_names=list(adult.PLATT), categories=categories
    )


@here
@pytest.mark.parametrize("roll", [0, 16_281], ids=["training rows first", "test rows first"])
def test_adult_from_openml_is_the_same_table(monkeypatch, columns, roll):
    bunch = openml(columns, roll)
    monkeypatch.setattr(finding, "find_file", lambda name: None)
    monkeypatch.setattr(adult, "fetch_openml", lambda **options: bunch)
    found = adult._adult_columns()
    assert all(np.array_equal(found[name], columns[name]) for name in columns)


@here
def test_other_rows_under_the_name_of_adult_are_refused(monkeypatch, columns):
    bunch = openml(columns, 7)
    monkeypatch.setattr(finding, "find_file", lambda name: None)
    monkeypatch.setattr(adult, "fetch_openml", lambda **options: bunch)
    with pytest.raises(ValueError, match="Adult must have 7841 of 32561"):
        adult._adult_columns()


@woods
@pytest.mark.slow
def test_covertype_has_its_published_counts():
    table = load_covtype()
    assert (table.X.shape, int((table.y == 1).sum())) == ((581_012, 54), 283_301)
    np.testing.assert_array_equal(np.bincount(table.groups), [260_796, 29_884, 253_364, 36_968])


def fails(*args, **options):
    raise URLError("no network")


@pytest.mark.parametrize(
    ("load", "home", "fetch"), [(load_adult, adult, "fetch_openml"), (load_covtype, covtype, "fetch_covtype")]
)
def test_without_files_and_network_one_sentence_says_so(monkeypatch, load, home, fetch):
    monkeypatch.setattr(finding, "find_file", lambda name: None)
    monkeypatch.setattr(home, fetch, fails)
    with pytest.raises(OSError, match=r"XRISK_DATA nor in ../shared/data, and could not be downloaded: URLError"):
        load()


def test_covertype_from_the_network_is_read(monkeypatch):
    X = np.zeros((2, 54))
    X[0, 10] = X[1, 13] = 1.0
    monkeypatch.setattr(finding, "find_file", lambda name: None)
    monkeypatch.setattr(covtype, "fetch_covtype", lambda **options: (X, np.array([2, 5])))
    table = load_covtype()
    assert (table.y.tolist(), table.groups.tolist()) == ([1, -1], [0, 3])


@pytest.mark.parametrize("load", [load_adult, load_covtype])
def test_scikit_learn_takes_the_options_and_a_dead_network_is_noticed(monkeypatch, tmp_path, load):
    monkeypatch.setattr(finding, "find_file", lambda name: None)
    monkeypatch.setattr(socket, "getaddrinfo", fails)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between tries
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with pytest.raises(OSError, match="could not be downloaded: URLError"):
        load()


def test_the_time_allowed_to_servers_is_restored():
    before = socket.getdefaulttimeout()
    with finding.impatient():
        assert socket.getdefaulttimeout() == finding.SILENCE
    assert socket.getdefaulttimeout() == before


def test_the_folder_in_the_environment_comes_first(monkeypatch, tmp_path):
    (tmp_path / "adult_train.csv.gz").touch()
    monkeypatch.setenv("XRISK_DATA", str(tmp_path))
    assert datasets.find_file("adult_train.csv.gz") == tmp_path / "adult_train.csv.gz"


def test_the_folder_beside_the_working_directory_is_found(monkeypatch, tmp_path):
    folder = tmp_path / "shared" / "data"
    folder.mkdir(parents=True)
    (folder / "thing.npz").touch()
    (tmp_path / "project").mkdir()
    monkeypatch.delenv("XRISK_DATA", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    assert datasets.find_file("thing.npz") == folder / "thing.npz"


def test_a_folder_without_the_file_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("XRISK_DATA", str(tmp_path))
    assert datasets.find_file("no such file") is None


def test_a_dense_decision_process_has_probabilities_and_rewards():
    mdp = make_mdp(30, 4, random_state=0)
    assert mdp.features.shape == (30, 4)
    assert mdp.transitions.shape == mdp.rewards.shape == (30, 30)
    np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1.0)


def test_successors_are_so_many_and_none_twice():
    for states, successors in ((50, 3), (7, 7), (500, 5), (4, 1)):
        P = make_mdp(states, 2, successors=successors, random_state=1).transitions
        assert P.has_canonical_format
        np.testing.assert_array_equal(np.diff(P.indptr), successors)
        np.testing.assert_allclose(P.sum(axis=1), 1.0)


def test_many_states_that_lead_to_each_other_are_generated():
    mdp = make_mdp(2001, 2, random_state=0)
    assert isinstance(mdp.transitions, Generated)
    assert mdp.rewards is None


def test_the_same_seed_makes_the_same_decision_process():
    for options in ({}, {"successors": 3}):
        first, second = (make_mdp(20, 2, random_state=5, **options) for _ in range(2))
        np.testing.assert_array_equal(first.features, second.features)
        assert abs(first.transitions - second.transitions).max() == 0.0
        np.testing.assert_array_equal(first.rewards, second.rewards)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_states": 0}, "n_states must be at least 1, got 0"),
        ({"n_features": 0}, "n_features must be at least 1, got 0"),
        ({"successors": 0}, "successors must be at least 1, got 0"),
        ({"n_states": 3, "successors": 4}, "successors must be at most n_states=3, got 4"),
    ],
)
def test_a_wrong_decision_process_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_mdp(**options)


@pytest.mark.parametrize(
    ("name", "shape", "first", "missing"),
    [
        ("25-monthly", (1146, 25), 192607, 0),
        ("100-monthly", (1161, 100), 192607, 1448),
        ("industry10-monthly", (1161, 10), 192607, 0),
        ("industry49-monthly", (1146, 49), 192607, 2868),
        ("factors-monthly", (1146, 4), 192607, 0),
    ],
)
def test_french_returns_are_the_published_ones(name, shape, first, missing):
    if datasets.find_file(FILES[name]) is None:
        pytest.skip(f"no {FILES[name]} in XRISK_DATA or ../shared/data")
    found = load_french(name)
    assert (found.returns.shape, found.dates[0], np.isnan(found.returns).sum()) == (shape, first, missing)
    assert (len(found.names), found.dates.shape) == (shape[1], shape[:1])


def test_french_returns_that_are_not_there_are_told(monkeypatch):
    monkeypatch.setattr(finding, "find_file", lambda name: None)
    with pytest.raises(OSError, match=r"ff25_size_bm_monthly_vw.csv.gz is neither in .* it is not downloaded"):
        load_french()
    with pytest.raises(ValueError, match=r"name must be one of 25-monthly, .*, got 'stocks'"):
        load_french("stocks")


def test_generated_returns_have_a_market_in_common():
    returns = make_returns(2000, 10, random_state=0).returns
    assert np.corrcoef(returns.T).mean() > 0.2
    assert 0.0 < returns.mean() < 0.02
    with pytest.raises(ValueError, match="n_assets must be at least 1, got 0"):
        make_returns(10, 0)
