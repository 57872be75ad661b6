"""Small trainings on one process or on several real ones, and how to start these."""

import multiprocessing
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import xrisk.torch as xt

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch", "torch._dynamo", "tests.torch.ranks"])  # once, not in every process

LOSSES = {
    "groups-sox": lambda: xt.GroupDROLoss(5, alpha=0.4, track=0.3),
    "dro-kl": lambda: xt.DROLoss("kl", radius=0.2, rows=60),
    "groups-msvr": lambda: xt.GroupDROLoss(5, divergence="chi2", method="msvr", track=0.3),
    "groups-sonex": lambda: xt.GroupDROLoss(5, alpha=0.4, method="sonex", track=0.3),
    "groups-alexr": lambda: xt.GroupDROLoss(5, alpha=0.4, method="alexr", theta=0.5),
    "dro-ascdro": lambda: xt.DROLoss("kl", radius=0.2, rows=60, method="ascdro"),
    "dro-cvar": lambda: xt.DROLoss("cvar", alpha=0.3),
    "dro-chi2": lambda: xt.DROLoss("chi2", radius=0.2),
}
NEED_PREVIOUS = ("groups-msvr", "groups-alexr", "dro-ascdro")


class Setting(NamedTuple):
    """A training: its loss, how a joint batch is shared, its steps, and where it is saved or taken up."""

    loss: str
    sharing: str = "even"
    steps: int = 40
    saved: str = ""
    resumed: str = ""


def table():
    """(X, y, groups) of 60 rows in double precision; the groups are of unequal sizes."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    groups = torch.arange(60) % 7 % 5
    sign = torch.where(groups < 2, -1.0, 1.0)
    return X, torch.where(sign * X[:, 0] + X[:, 1] > 0, 1.0, -1.0).double(), groups


def joint_batch(sharing, t):
    """The rows of batch t for all processes."""
    rows = torch.tensor(xt.GroupBatches(table()[2], count=3, rows=4, seed=1, rank=0, ranks=1).rows_of(t))
    return rows[torch.arange(12) % 8] if sharing == "duplicate" else rows


def part(sharing, t, rank, ranks):
    """The rows of batch t for a process."""
    rows = joint_batch(sharing, t)
    if ranks == 1:
        return rows
    first = {"uneven": 9, "empty": 12 if t % 3 else 0}.get(sharing)
    return rows[rank::ranks] if first is None else (rows[:first] if rank == 0 else rows[first:][rank - 1 :: ranks - 1])


class Trained(torch.nn.Module):
    """A model and its loss, as trainers wrap them."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, X, y, groups):
        values = torch.nn.functional.softplus(-y * self.net(X)[:, 0])
        return self.loss(values, groups) if isinstance(self.loss, xt.GroupDROLoss) else self.loss(values)


class Run:
    """A linear model, its loss and its optimizer on a process."""

    def __init__(self, setting, rank, ranks):
        torch.manual_seed(0)
        self.setting, self.rank, self.ranks, self.t = setting, rank, ranks, 0
        self.net = torch.nn.Linear(4, 1).double()
        self.model = DistributedDataParallel(self.net) if ranks > 1 else self.net
        self.loss = LOSSES[setting.loss]()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.2, momentum=0.5, dampening=0.5)
        self.before = {name: p.detach().clone() for name, p in self.net.named_parameters()}
        self.values = []

    def losses(self, rows, model):
        X, y, _ = table()
        return torch.nn.functional.softplus(-y[rows] * model(X[rows])[:, 0])

    def step(self):
        rows = part(self.setting.sharing, self.t, self.rank, self.ranks)
        arguments = [table()[2][rows]] if isinstance(self.loss, xt.GroupDROLoss) else []
        if self.setting.loss in NEED_PREVIOUS:
            with torch.no_grad():
                arguments.append(self.losses(rows, self.at_previous_weights))
        self.optimizer.zero_grad()
        value = self.loss(self.losses(rows, self.model), *arguments)
        value.backward()
        self.before = {name: p.detach().clone() for name, p in self.net.named_parameters()}
        self.optimizer.step()
        self.t += 1
        self.values.append(value.item())

    def at_previous_weights(self, X):
        return torch.func.functional_call(self.net, self.before, (X,))

    def state(self):
        parts = {"net": self.net, "loss": self.loss, "optimizer": self.optimizer}
        return {name: each.state_dict() for name, each in parts.items()} | {"before": self.before, "t": self.t}

    def load(self, state):
        for name in ("net", "loss", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        self.before, self.t = state["before"], state["t"]

    def save(self, path):
        """Atomically: a process may be killed at any time."""
        if self.rank == 0:
            torch.save(self.state(), f"{path}.part")
            Path(f"{path}.part").replace(path)


def train(rank, ranks, setting):
    """(values, weights and state) after the steps of a setting."""
    run = Run(setting, rank, ranks)
    if setting.resumed:
        run.load(torch.load(setting.resumed, weights_only=True))
    for _ in range(setting.steps):
        run.step()
    if setting.saved:
        run.save(setting.saved)
    return outcome(run)


def outcome(run):
    return {"values": torch.tensor(run.values), "weights": weights_of(run.net), **run.loss.state_dict()}


def weights_of(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def train_wrapped(rank, ranks, setting):
    """As `train`, the loss inside of the module that is wrapped."""
    torch.manual_seed(0)
    inner = Trained(torch.nn.Linear(4, 1).double(), LOSSES[setting.loss]())
    model = DistributedDataParallel(inner) if ranks > 1 else inner
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.2)
    X, y, groups = table()
    for t in range(setting.steps):
        rows = part(setting.sharing, t, rank, ranks)
        optimizer.zero_grad()
        model(X[rows], y[rows], groups[rows]).backward()
        optimizer.step()
    return {"weights": weights_of(inner.net), **inner.loss.state_dict()}


def on_ranks(ranks, work, folder, *arguments):
    """What ``work(rank, ranks, …)`` returns on each of several processes."""
    processes = [
        SERVER.Process(target=_rank, args=(rank, ranks, work, str(folder), arguments)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0] * ranks
    return [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(ranks)]


def _rank(rank, ranks, work, folder, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    torch.save(work(rank, ranks, *arguments), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
