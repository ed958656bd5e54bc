"""One query published by batches of cells, in a memory that does not grow with their number.

True vectors are held whole (see `exact/results/vectors.py`), and so are choices and private keys;
what is noised elsewhere comes block after block.
Noise, post-processing and Arrow arrays are made a batch at a time in one worker thread, while the
batch before is being encoded and written. All that draws randomness or works with balls is in that
thread: one stream of bits in one order, whatever the threads' timing, and one precision context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from dprelease.exact.answering import Answering
from dprelease.noise.noised_answers import answer_query, noisy_batches
from dprelease.noise.noised_vectors import NoisyTable
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import PlannedColumn
from dprelease.system.ahead import ahead
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.published_tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa


class Shown(Protocol):
    """What makes Arrow tables of noised cells, batch after batch."""

    def of(self, noisy: NoisyTable) -> pa.Table:
        """Return the table of the cells that follow."""
        ...


@contextmanager
def streaming(
    engine: Answering,
    columns: Sequence[PlannedColumn],
    bits: BitSource,
    most: int = ROW_GROUP,
    shown: Callable[[Sequence[PlannedColumn]], Shown] = Tables,
) -> Iterator[Iterator[pa.Table]]:
    """Yield the table of one query as tables of `most` rows, in key order.

    All planned columns of the query are given. `shown` makes of noised integers what is written:
    the published columns, or the measurements themselves. Put together the tables are what
    `answered` and `shown` make, to the bit, for the same stream of bits. On leaving no thread is
    left running.

    Raises
    ------
    DataError
        As `Engine.run`.
    """
    query = columns[0].query
    if query.private is not None:
        answer = answer_query(engine, columns, bits)
        yield iter([shown(answer.columns).of(answer.noisy)])
        return
    batches = noisy_batches(engine, query, columns, bits, most)
    tables = shown(columns)
    chunks = (tables.of(noisy) for noisy in batches)
    with ahead(chunks, "dprelease-noise", few=query.keys.size <= most) as made:
        yield made
