"""Data sets that say which row an item is: losses with state per row need the numbers of the rows of a batch."""

from typing import Any

from torch.utils.data import Dataset


class Indexed(Dataset[Any]):
    """A map-style data set whose items end with the number of their row.

    A tuple becomes ``(*item, index)``, a dict gets the key ``"index"``, and any other item becomes ``(item, index)``.

    Parameters
    ----------
    dataset : map-style data set
        Anything with ``__getitem__`` and ``__len__``.

    Notes
    -----
    The number is that of the row in ``dataset``. For a part of a data set, write ``Indexed(Subset(…))`` and give the
    loss the targets of that part, so that both count the same rows.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> data = xt.Indexed(torch.utils.data.TensorDataset(torch.tensor([3.0, 4.0]), torch.tensor([0, 1])))
    >>> data[1]
    (tensor(4.), tensor(1), 1)
    """

    def __init__(self, dataset: Any) -> None:
        for verb in ("__getitem__", "__len__"):
            if not callable(getattr(type(dataset), verb, None)):
                raise TypeError(f"dataset must be a map-style data set with {verb}, got {type(dataset).__name__}")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        row = index + len(self) if index < 0 else index
        item = self.dataset[row]
        if isinstance(item, dict):
            if "index" in item:
                raise ValueError("items of the data set must not have the key 'index': it is the number of the row")
            return {**item, "index": row}
        return (*item, row) if isinstance(item, tuple | list) else (item, row)
