"""One thread: these tensors are small, and runs of tests stand side by side."""

import pytest
import torch
import torch._dynamo  # the first optimizer would import it, which takes seconds


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
