"""Models on disk: exact round trips, and one sentence for every file that is not one."""

import copy
import enum
import io
import json
import math
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

import xrisk
from tests.conftest import first_quick
from xrisk import persistence, registry
from xrisk.functions import L2, Ball, CVaRRisk, ElasticNet, Logistic, Restricted
from xrisk.persistence import UnreadableError, load, savable, save


@savable
class Keeper(BaseEstimator):
    """Keeps what it is given, and what it is fitted with."""

    level_ = 0  # a default at the class, which a fit may replace

    def __init__(self, param=None, other=1.5):
        self.param = param
        self.other = other

    def fit(self, **fitted):
        for name, value in fitted.items():
            setattr(self, name, value)
        return self

    @property
    def derived_(self):
        return 1

    def method_(self):
        return 2


@savable
class Mood(enum.Enum):
    GOOD = "all is well"
    BAD = "all is not"


@savable
@dataclass
class Note:
    text: str
    numbers: np.ndarray


class Stranger(BaseEstimator):
    def fit(self):
        return self


class Loose(NamedTuple):
    a: int = 1


def there_and_back(model, tmp_path):
    save(model, tmp_path / "model.xrisk")
    return load(tmp_path / "model.xrisk")


def same(a, b):
    """Whether two values are of one type and equal through and through, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        return same(a.ravel().tolist(), b.ravel().tolist()) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float | np.floating):
        return repr(a) == repr(b)
    if isinstance(a, BaseEstimator | Note):
        return same(vars(a), vars(b))
    return a == b


VALUES = {
    "none": None,
    "true": True,
    "integer": 3,
    "large integer": 10**40,
    "float": 0.1,
    "negative zero": -0.0,
    "smallest float": 5e-324,
    "nan": math.nan,
    "infinities": [math.inf, -math.inf],
    "text": "naïve\n\x00 × \ud800",
    "list in tuple in dict": {"a": (1, [2.0, (None,)]), 3: {}, (1, 2): True, None: "x"},
    "empty containers": [(), [], {}],
    "numpy float": np.float64(0.1),
    "numpy nan": np.float32("nan"),
    "numpy half": np.float16(0.1),
    "numpy integer": np.uint8(200),
    "numpy truth": np.bool_(True),
    "numpy text": np.str_("a"),
    "spec": CVaRRisk(0.3),
    "specs in specs": Restricted(ElasticNet(0.1, 0.2), Ball(3.0)),
    "spec with numpy field": L2(np.float32(0.1)),
    "list of specs": [Logistic(), L2()],
    "solver": xrisk.solvers.ALEXR(step=0.5),
    "solver with schedule": xrisk.solvers.ALEXR(step=xrisk.solvers.Decreasing()),
    "certificate": xrisk.Certificate(1.0, 0.5, 0.5, 0.5),
    "stop": xrisk.Stop.CONVERGED,
    "budget": xrisk.Budget(seconds=1.0),
    "trace": xrisk.Trace(2.0, [xrisk.run.TracePoint(1, 2, 0.5, math.nan)]),
    "enum of the user": Mood.BAD,
    "dataclass of the user": Note("x", np.arange(3)),
    "estimator": Keeper(param=Keeper(3), other=[1]),
    "array": np.arange(6.0).reshape(2, 3),
    "float32 array": np.linspace(0, 1, 5, dtype=np.float32),
    "fortran array": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided array": np.arange(10)[::3],
    "big-endian array": np.arange(3, dtype=">i4"),
    "array of no axes": np.array(3.0),
    "empty array": np.zeros((0, 4)),
    "truth array": np.array([True, False]),
    "complex array": np.array([1j, math.nan]),
    "text array": np.array(["a", "", "ßx"]),
    "bytes array": np.array([b"a", b"bc"]),
    "dates": np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    "object array of text": np.array(["a", None, "ccc"], dtype=object),
    "object matrix": np.array([[1, "b"], [2.5, None]], dtype=object),
    "empty object array": np.empty((0, 3), dtype=object),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_parameters_come_back_exactly(value, tmp_path):
    assert same(there_and_back(Keeper(value), tmp_path).param, value)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_fitted_attributes_come_back_exactly(value, tmp_path):
    assert same(there_and_back(Keeper().fit(coef_=value), tmp_path).coef_, value)


def test_the_whole_estimator_comes_back(tmp_path):
    model = Keeper([1], other=None).fit(coef_=np.arange(3.0), n_iter_=4, classes_=np.array(["a", "b"], object))
    back = there_and_back(model, tmp_path)
    assert type(back) is Keeper
    assert same(vars(back), vars(model))


def test_arrays_come_back_writable_and_in_their_order(tmp_path):
    back = there_and_back(Keeper().fit(coef_=np.asfortranarray(np.ones((2, 3)))), tmp_path).coef_
    assert (back.flags.writeable, back.flags.f_contiguous) == (True, True)


def test_a_memory_map_comes_back_as_an_array(tmp_path):
    held = np.memmap(tmp_path / "map", dtype=np.float64, mode="w+", shape=3)
    assert same(there_and_back(Keeper(held), tmp_path).param, np.zeros(3))


def test_a_default_at_the_class_may_be_replaced_by_a_fit(tmp_path):
    assert there_and_back(Keeper().fit(level_=5), tmp_path).level_ == 5


def test_private_attributes_are_left_behind(tmp_path):
    assert not hasattr(there_and_back(Keeper().fit(_cache=lambda: 1), tmp_path), "_cache")


@given(
    hnp.arrays(
        st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(max_len=3)), hnp.array_shapes(min_dims=0, min_side=0)
    )
)
def test_any_array_comes_back(tmp_path_factory, array):
    assert same(there_and_back(Keeper(array), tmp_path_factory.mktemp("any")).param, array)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3) | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(json_like)
def test_any_nest_comes_back(tmp_path_factory, value):
    assert same(there_and_back(Keeper(value), tmp_path_factory.mktemp("any")).param, value)


def test_the_same_model_is_the_same_file(tmp_path):
    for name in ("a", "b"):
        save(Keeper(np.arange(3)), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_and_json_alone_can_read_a_file(tmp_path):
    save(Keeper().fit(coef_=np.arange(3)), tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        header = json.loads(archive.read("header.json"))
        array = np.load(io.BytesIO(archive.read("0.npy")), allow_pickle=False)
    assert header["model"] == {"estimator": ["Keeper", {"other": 1.5, "param": None}, {"coef_": {"array": 0}}]}
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize("words", first_quick(["from xrisk.persistence import load", "from xrisk import load"]))
def test_a_model_of_ours_is_loaded_by_a_process_that_has_imported_no_estimator(words, tmp_path):
    save(xrisk.GroupDROClassifier("max"), tmp_path / "model")
    code = f"{words}; import sys; print(load(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "GroupDROClassifier(divergence='max')"


def nested(depth):
    return [nested(depth - 1)] if depth else []


UNSAVABLE = {
    "a function": (len, "Keeper.param cannot be saved: its type builtin_function_or_method has no place in the format"),
    "a generator": (np.random.default_rng(0), r"its type Generator has no place in the format \(give a seed"),
    "a RandomState": (np.random.RandomState(0), r"RandomState .* \(give a seed"),
    "a foreign estimator": (LogisticRegression(), "its type LogisticRegression"),
    "a foreign NamedTuple": (Loose(), "its type Loose"),
    "a set": ({1}, "its type set"),
    "bytes": (b"x", "its type bytes"),
    "a masked array": (np.ma.array([1]), "it is a MaskedArray, not a plain array"),
    "a structured array": (np.zeros(2, dtype=[("a", int)]), "have no place in the format"),
    "an object in an array": (np.array([len], dtype=object), "Keeper.param cannot be saved"),
    "a function in a spec": (L2(len), "Keeper.param.l2 cannot be saved"),
    "a deep nest": (nested(200), "nested too deeply"),
}


@pytest.mark.parametrize(("value", "sentence"), UNSAVABLE.values(), ids=UNSAVABLE)
def test_what_cannot_be_saved_is_named(value, sentence, tmp_path):
    with pytest.raises(TypeError, match=sentence):
        save(Keeper(value), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", [Stranger(), 3, L2(), type("Keeper", (Keeper,), {})()], ids=repr)
def test_only_listed_classes_are_saved(model, tmp_path):
    with pytest.raises(TypeError, match=r"estimator must be of a class that xrisk.persistence.savable knows, got"):
        save(model, tmp_path / "model")


def test_a_name_can_be_taken_once():
    with pytest.raises(ValueError, match=r"the name CVaRRisk is taken by xrisk\.functions\.risk\.CVaRRisk"):
        savable(type("CVaRRisk", (BaseEstimator,), {}))


def test_a_class_defined_again_takes_its_own_place(monkeypatch):
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    again = type("Keeper", (Keeper,), {"__module__": Keeper.__module__, "__qualname__": "Keeper"})
    savable(again)
    assert registry.listed("Keeper") is again


def test_a_class_of_no_known_kind_is_not_listed():
    with pytest.raises(TypeError, match="cls must be an estimator, a NamedTuple, a dataclass or an enum, got int"):
        savable(int)


def test_every_public_spec_of_functions_is_listed():
    specs = [value for value in vars(xrisk.functions).values() if isinstance(value, type) and hasattr(value, "_fields")]
    assert [spec for spec in specs if not registry.is_listed(spec)] == []


def test_a_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    save(Keeper(1), tmp_path / "model")
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(Keeper(2), tmp_path / "model")
    assert load(tmp_path / "model").param == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "model")
    save(Keeper(1), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "model").param == 1


def test_a_directory_is_not_written_to(tmp_path):
    with pytest.raises(ValueError, match="path must be a file"):
        save(Keeper(), tmp_path)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


def test_a_directory_is_not_loaded(tmp_path):
    with pytest.raises(ValueError, match="is a directory or a device"):
        load(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a directory or a device"):
        load(tmp_path / "pipe")


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


GOOD = {
    "format": "xrisk model",
    "version": 1,
    "written_by": "0",
    "model": {"estimator": ["Keeper", {"param": {"array": 0}}, {}]},
    "arrays": 1,
}


def archive(header=None, members=None, compression=zipfile.ZIP_STORED, **changes):
    """A file as an attacker may write it."""
    header = json.dumps({**GOOD, **changes}) if header is None else header
    members = {"0.npy": npy(np.arange(3.0))} if members is None else members
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        for name, content in {"header.json": header, **members}.items():
            file.writestr(name, content)
    return stream.getvalue()


def model(params=None, fitted=None, name="Keeper"):
    return archive(model={"estimator": [name, params or {}, fitted or {}]})


class Bomb:
    """Says when it is unpickled."""

    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


def with_header(text, data=b"\0" * 24):
    """An array whose own header is ``text``."""
    text = text.encode().ljust(117) + b"\n"
    return {"0.npy": b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data}


def shaped(shape, descr="<f8"):
    return archive(members=with_header(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"))


def repeated_member():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("header.json", json.dumps(GOOD))
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("header.json", json.dumps(GOOD))
    return stream.getvalue()


REFUSED = {
    "nothing": (b"", "it is empty"),
    "text": (b"hello", "it is cut short, or nothing that xrisk wrote"),
    "a pickle": (pickle.dumps(Bomb()), "it is cut short, or nothing that xrisk wrote"),
    "an empty archive": (b"PK\x05\x06" + bytes(18), "it has no header"),
    "no header": (archive().replace(b"header.json", b"hearse.json"), "it has no header"),
    "an archive of arrays": (archive(header="[]"), "it is no model written by xrisk.save"),
    "no JSON": (archive(header="{"), "damaged, or was not written"),
    "header not text": (archive(header=b"\xff\xfe\x00"), "damaged, or was not written"),
    "deep JSON": (archive(header="[" * 100_000), "damaged, or was not written"),
    "NaN in JSON": (archive(header='{"format": NaN}'), "holds NaN, which is not JSON"),
    "a key twice": (archive(header='{"format": 1, "format": 2}'), "names something twice"),
    "another format": (archive(format="skops"), "it is no model written by xrisk.save"),
    "a newer version": (archive(version=2), "written by a newer xrisk, in format 2, this one reads up to 1"),
    "version zero": (archive(version=0), "its format has the version 0"),
    "version true": (archive(version=True), "its format has the version True"),
    "version in words": (archive(version="1"), "its format has the version '1'"),
    "no version": (archive(header='{"format": "xrisk model"}'), "damaged, or was not written"),
    "a list as model": (archive(model=[1]), "something other than an estimator"),
    "a spec as model": (archive(model={"spec": ["L2", {}]}), "something other than an estimator"),
    "missing array": (archive(arrays=2), "it must have 2 arrays, it has 1"),
    "array out of range": (model({"param": {"array": 7}}), "damaged"),
    "array by a negative number": (model({"param": {"array": -1}}), "-1 where a count should be"),
    "array by truth": (model({"param": {"array": True}}), "True where a count should be"),
    "a member outside": (archive(members={"../0.npy": npy(np.arange(3))}), "no part of the format"),
    "an absolute member": (archive(members={"/etc/0.npy": npy(np.arange(3))}), "no part of the format"),
    "an extra member": (archive(members={"0.npy": npy(np.arange(3)), "run.py": "1"}), "no part of the format"),
    "a member twice": (repeated_member(), "two of its members have one name"),
    "compressed": (archive(compression=zipfile.ZIP_DEFLATED), "is compressed, which xrisk never does"),
    "a zip bomb": (
        archive(members={"0.npy": bytes(10**7)}, compression=zipfile.ZIP_DEFLATED),
        "is compressed, which xrisk never does",
    ),
    "a pickled array": (
        archive(members={"0.npy": npy(np.array([Bomb()], dtype=object), allow_pickle=True)}),
        "has the type object",
    ),
    "a structured array": (archive(members={"0.npy": npy(np.zeros(2, [("a", "i4")]))}), "which xrisk never writes"),
    "no array": (archive(members={"0.npy": b"hello"}), "damaged"),
    "npy 2.0": (archive(members={"0.npy": npy(np.arange(3), version=(2, 0))}), "not of NumPy's format 1.0"),
    "a huge shape": (shaped("(1000000000000,)"), "does not go with its size"),
    "a huge product": (shaped("(4294967296, 4294967296, 8)"), "does not go with its size"),
    "a negative shape": (shaped("(-1, -3)"), "does not go with its size"),
    "too little": (shaped("(2,)"), "does not go with its size"),
    "no text in text": (archive(members={"0.npy": npy(np.full(3, 2**31, "<u4")).replace(b"<u4", b"<U1")}), "no text"),
    "no truth in truth": (
        archive(members={"0.npy": npy(np.full(3, 9, "|u1")).replace(b"|u1", b"|b1")}),
        "truth values",
    ),
    "code in an array's header": (
        archive(members=with_header("__import__('os').abort()")),
        "damaged",
    ),
    "an unknown class": (model(name="Popen"), "it holds a 'Popen', a class that is not on the list"),
    "a class with dots": (model(name="os.system"), "not on the list"),
    "a class that is a list": (model(name=[]), "damaged"),
    "a spec as estimator": (model(name="L2"), "it holds a 'L2', a class that is not on the list"),
    "an estimator as spec": (model({"param": {"spec": ["Keeper", {}]}}), "not on the list"),
    "an enum as spec": (model({"param": {"spec": ["Stop", {}]}}), "not on the list"),
    "an unknown spec": (model({"param": {"spec": ["Path", {}]}}), "'Path', a class that is not on the list"),
    "an unknown field": (model({"param": {"spec": ["L2", {"l3": 1}]}}), "L2 has no 'l3' in this version"),
    "an unknown parameter": (model({"nope": 1}), "Keeper has no 'nope' in this version"),
    "an unknown member of an enum": (model({"param": {"enum": ["Stop", "NEVER"]}}), "damaged"),
    "a bad trace": (model({"param": {"spec": ["Trace", {"ratio": 0.5}]}}), "damaged"),
    "a method replaced": (model(fitted={"method_": 1}), "'method_' cannot be a fitted attribute of Keeper"),
    "a property replaced": (model(fitted={"derived_": 1}), "'derived_' cannot be a fitted attribute"),
    "a class replaced": (model(fitted={"__class__": 1}), "'__class__' cannot be a fitted attribute"),
    "a dictionary replaced": (model(fitted={"__dict__": 1}), "cannot be a fitted attribute"),
    "a name without underscore": (model(fitted={"fit": 1}), "cannot be a fitted attribute"),
    "an unknown kind": (model({"param": {"code": "1"}}), "a value of the unknown kind 'code'"),
    "two kinds": (model({"param": {"array": 0, "tuple": []}}), "unknown kind"),
    "no kind": (model({"param": {}}), "damaged"),
    "an unknown scalar": (model({"param": {"scalar": ["void", 1]}}), "a scalar of the unknown type 'void'"),
    "a scalar too large": (model({"param": {"scalar": ["int8", 1000]}}), "damaged"),
    "an unhashable key": (model({"param": {"dict": [[[], 1]]}}), "damaged"),
    "objects that do not fill": (model({"param": {"objects": [[10**12], []]}}), "does not go with its size"),
    "a wrong float": (model({"param": {"float": "1"}}), "damaged"),
    "a deep value": (model({"param": nested(80)}), "nested too deeply"),
}


@pytest.mark.parametrize(("content", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_bad_file_is_refused_in_one_sentence(content, sentence, tmp_path):
    path = tmp_path / "model.xrisk"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=sentence) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} cannot be loaded: ")
    assert not Bomb.exploded


def test_the_attackers_archive_is_read_when_nothing_is_wrong_with_it(tmp_path):
    (tmp_path / "model").write_bytes(archive())
    assert same(load(tmp_path / "model").param, np.arange(3.0))


def test_what_a_file_does_not_say_is_left_at_its_default(tmp_path):
    (tmp_path / "model").write_bytes(archive(model={"estimator": ["Keeper", {"param": {"spec": ["L2", {}]}}, {}]}))
    assert (load(tmp_path / "model").param, load(tmp_path / "model").other) == (L2(), 1.5)


def fuzz_model():
    return Keeper(CVaRRisk(0.25), other=(1.5, "x")).fit(
        coef_=np.arange(4.0), classes_=np.array(["a", "b"]), stop_=xrisk.Stop.CONVERGED, trace_=xrisk.Trace()
    )


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "model.xrisk"
    save(fuzz_model(), path)
    return path.read_bytes()


def outcome(content):
    """ "refused", "equal", "different", or the name of what went wrong."""
    try:
        found = persistence._loaded(content, "model")
    except UnreadableError:
        return "refused"
    except Exception as error:
        return type(error).__name__
    return "equal" if same(vars(found), vars(fuzz_model())) else "different"


@pytest.mark.parametrize("start", range(5))
def test_a_file_cut_anywhere_is_refused(fuzzed, start):
    assert {outcome(fuzzed[:length]) for length in range(start, len(fuzzed), 5)} == {"refused"}


@pytest.mark.parametrize("flip", [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF])
def test_a_file_with_a_flipped_byte_is_refused_or_equal(fuzzed, flip):
    flipped = [
        fuzzed[:position] + bytes([fuzzed[position] ^ flip]) + fuzzed[position + 1 :] for position in range(len(fuzzed))
    ]
    assert {outcome(content) for content in flipped} <= {"refused", "equal"}


@pytest.mark.parametrize("seed", range(4))
def test_a_file_of_shuffled_pieces_is_refused_or_equal(fuzzed, seed):
    rng = np.random.default_rng(seed)
    pieces = [np.array_split(np.frombuffer(fuzzed, np.uint8), rng.integers(2, 9)) for _ in range(100)]
    mixed = [np.concatenate([parts[k] for k in rng.permutation(len(parts))]).tobytes() for parts in pieces]
    assert {outcome(content) for content in mixed} <= {"refused", "equal"}


@given(json_like)
def test_any_json_as_model_is_refused_or_loaded(value):
    content = archive(model={"estimator": ["Keeper", {"param": value}, {}]})
    try:
        assert isinstance(persistence._loaded(content, "model"), Keeper)
    except UnreadableError as error:
        assert str(error).startswith("model cannot be loaded")  # noqa: PT017


ROWS = np.random.default_rng(0).standard_normal((40, 2))
LABELS = ROWS[:, 0] + np.sin(np.arange(40)) > 0.5
FITTED = {
    "ranking": lambda: xrisk.TwoWayPartialAUCClassifier(anchor=0.1, start="logistic").fit(ROWS, LABELS),
    "rows": lambda: xrisk.DROClassifier().fit(ROWS, LABELS),
    "portfolio": lambda: xrisk.MeanVariancePortfolio().fit(0.01 * ROWS),
}
WRONG = [
    ("ranking", "threshold_", None, "threshold_ must be a finite number, got None"),
    ("ranking", "threshold_", "x", "threshold_ must be a finite number, got 'x'"),
    ("ranking", "threshold_", np.zeros(3), "threshold_ must be a finite number"),
    ("ranking", "threshold_", math.nan, "threshold_ must be a finite number, got nan"),
    ("ranking", "roc_fpr_", np.zeros(0), "roc_fpr_, roc_tpr_ and roc_thresholds_ must be three lists of one length"),
    ("ranking", "roc_tpr_", np.ones(3), "roc_fpr_, roc_tpr_ and roc_thresholds_ must be three lists of one length"),
    ("ranking", "roc_thresholds_", np.ones((2, 2)), "must be three lists of one length"),
    ("ranking", "roc_thresholds_", "x", "roc_thresholds_ must be an array of finite numbers"),
    ("rows", "loss", "x", "loss must be one of"),
    ("rows", "loss", xrisk.functions.Squared(), "loss must be a word or a spec of a loss that the model can have"),
    ("rows", "loss", L2(), "loss must be a word or a spec of a loss that the model can have"),
    ("rows", "loss", None, "loss must be a word or a spec of a loss that the model can have, got None"),
    ("rows", "sample_losses_", np.ones(3), "sample_losses_ must be one for each of the sample_weights_"),
    ("rows", "sample_losses_", np.full(40, np.nan), "sample_losses_ must be an array of finite numbers"),
    ("portfolio", "risk_aversion", "x", "risk_aversion must be a number, got 'x'"),
    ("portfolio", "risk_aversion", -1.0, "risk_aversion must be positive, got -1.0"),
    ("portfolio", "risk_aversion", math.nan, "risk_aversion must be"),
]


@pytest.fixture(scope="module")
def fits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few rows
        return {name: fit() for name, fit in FITTED.items()}


@pytest.mark.parametrize(("name", "attribute", "value", "said"), WRONG)
def test_a_model_with_a_crafted_field_is_refused_in_one_sentence(fits, tmp_path, name, attribute, value, said):
    model = copy.copy(fits[name])
    assert type(there_and_back(model, tmp_path)) is type(model)
    setattr(model, attribute, value)
    with pytest.raises(UnreadableError, match=said) as caught:
        there_and_back(model, tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
