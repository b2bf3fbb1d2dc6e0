"""``setwise train sessions``: from items that were chosen together."""

from __future__ import annotations

from setwise._types import SLATE_SIZE
from setwise.cli import columns
from setwise.cli.held_out import require_other_file
from setwise.cli.train import options
from setwise.cli.train.data import SESSIONS, prepared
from setwise.cli.train.fitting import Fitting
from setwise.cli.train.output import Output


def sessions(
    file: options.File,
    *,
    out: options.Out,
    session: columns.Session = None,
    item: columns.Item = None,
    when: columns.Time = None,
    time_format: columns.TimeFormat = None,
    no_time: columns.NoTime = False,
    quantity: columns.Quantity = None,
    baskets: columns.Baskets = False,
    delimiter: columns.Delimiter = None,
    on_error: columns.OnError = None,
    attribute: options.Attribute = None,
    items: options.Items = None,
    least_sessions: options.LeastSessions = None,
    k: options.SlateSize = SLATE_SIZE,
    heads: options.Heads = None,
    dim: options.Dim = None,
    epochs: options.Epochs = None,
    minutes: options.Minutes = None,
    seed: options.Seed = 0,
    split: columns.Split = None,
    held_out: options.HeldOut = None,
    checkpoint: options.Checkpoint = None,
    device: options.Device = None,
    as_json: options.Json = False,
) -> None:
    """Items chosen together: baskets, playlists, or what a user took over time.

    The table has one row per item. Columns of usual names are found; every row counts as a choice.

    Example: [bold]setwise train sessions baskets.csv --session order --item product --out model/[/bold]
    """
    require_other_file("--held-out", held_out, file, items)
    output = Output(out, as_json)
    fitting = Fitting.of(
        k, seed, output.checkpoint(checkpoint), heads=heads, dim=dim, epochs=epochs, minutes=minutes, device=device
    )
    named = columns.reader_options(
        session,
        no_time,
        baskets,
        item=item,
        time=when,
        time_format=time_format,
        quantity=quantity,
        delimiter=delimiter,
        on_error=on_error,
        items=items,
        attributes=columns.attribute_columns(attribute),
    )
    fitting.run(*prepared(file, named, least_sessions, seed, split, SESSIONS), output, held_out)
