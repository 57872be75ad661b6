"""Batches with their samples drawn, as values."""

from xrisk.inner import draw, draw_part


def drawn(g, i, rng, batch):
    """The batch, with samples of gᵢ drawn into it."""
    draw(g, i, rng, batch)
    return batch


def drawn_part(g, i, first, batch):
    """The batch, with the samples first, first + 1, … of gᵢ in it."""
    draw_part(g, i, first, batch)
    return batch
