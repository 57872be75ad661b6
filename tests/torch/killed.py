"""A training under ``torchrun`` whose second process kills itself once: ``killed.py LOSS FOLDER``."""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.torch.ranks import Run, Setting


def main(loss, folder):
    dist.init_process_group("gloo")
    run, path = Run(Setting(loss), dist.get_rank(), dist.get_world_size()), folder / "checkpoint.pt"
    if path.exists():
        run.load(torch.load(path, weights_only=True))
    if run.rank == 0:
        with (folder / "started").open("a") as file:
            file.write(f"{run.t}\n")
    while run.t < 30:
        if run.rank == 1 and run.t == 17 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        run.step()
        if run.t % 5 == 0:
            run.save(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
