"""``setwise train slates``: from slates that were shown, with the outcome of each item."""

from __future__ import annotations

from setwise._types import SLATE_SIZE
from setwise.cli import columns
from setwise.cli.train import options
from setwise.cli.train.data import SLATES, prepared
from setwise.cli.train.fitting import Fitting
from setwise.cli.train.inputs import Inputs
from setwise.cli.train.output import Output
from setwise.datasets import Slates


def slates(
    file: options.File,
    *,
    out: options.Out,
    slate: options.Slate = None,
    item: columns.Item = None,
    outcome: options.Outcome = None,
    session: options.History = None,
    when: columns.Time = None,
    time_format: columns.TimeFormat = None,
    no_time: columns.NoTime = False,
    quantity: columns.Quantity = None,
    delimiter: columns.Delimiter = None,
    on_error: columns.OnError = None,
    position: options.Position = None,
    explored: options.Explored = None,
    propensity: options.Propensity = None,
    feature: options.Feature = None,
    embedding: options.Embedding = None,
    no_features: options.NoFeatures = False,
    attribute: options.Attribute = None,
    items: options.Items = None,
    k: options.SlateSize = SLATE_SIZE,
    heads: options.Heads = None,
    dim: options.Dim = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    split: columns.Split = None,
    plot: options.Plot = None,
    checkpoint: options.Checkpoint = None,
    device: options.Device = None,
    as_json: options.Json = False,
) -> None:
    """Slates that were shown, with the outcome of each item.

    The table has one row per item shown. Columns of usual names are found, and the attributes of items.

    Example: [bold]setwise train slates shown.csv --slate request --outcome clicked --out model/[/bold]
    """
    output = Output(out, as_json, plot)
    fitting = Fitting.of(k, seed, output.checkpoint(checkpoint), heads=heads, dim=dim, epochs=epochs, device=device)
    named = columns.reader_options(
        session,
        no_time,
        slate=slate,
        item=item,
        outcome=outcome,
        time=when,
        time_format=time_format,
        quantity=quantity,
        delimiter=delimiter,
        on_error=on_error,
        items=items,
        position=position,
        explored=explored,
        propensity=propensity,
    )
    inputs = Inputs.of(file, named, feature, embedding, columns.attribute_columns(attribute), no_features)
    if inputs.columns is not None:
        named["attributes"] = inputs.columns
    data, read = prepared(file, named, None, seed, split, SLATES)
    if isinstance(data, Slates):
        data, known, notes = inputs.taken(data, read["skipped"])
        fitting, read["notes"] = fitting.with_options(**known), notes
    fitting.run(data, read, output)
