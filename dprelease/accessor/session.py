"""A session: one table and one budget, which is charged before each answer is drawn.

A session also holds the engine for its queries. The first query opens the engine, and later queries
reuse it.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dprelease.accessor.row_comparison import snapshot_of
from dprelease.errors import (
    BudgetError,
    ChargeState,
    DeclarationError,
    RunState,
    SessionError,
    UsageError,
)
from dprelease.errors.argument_types import checked_methods, wrong_argument
from dprelease.errors.local_paths import check_paths
from dprelease.exact.engine_api import QueryEngine, RecordEngine
from dprelease.exact.engines import open_duckdb
from dprelease.exact.reading.frames import attempt
from dprelease.ledger.ledger import Ledger
from dprelease.numerics.entropy import Entropy
from dprelease.numerics.rounding import Number
from dprelease.planning.guarantees import budget_number
from dprelease.privacy.unit import Neighbours
from dprelease.release.run_options import signing_key_of
from dprelease.schema.load import Declared, read_table, table_from_mapping
from dprelease.schema.table import Table
from dprelease.system.forks import Maker
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey


class ReusedEngine:
    """An engine that all queries of a session reuse, because the registered rows never change.

    One query uses the engine at a time; a simultaneous query in another thread opens its own
    engine. The engine is closed with the session, or after a failed query, which may leave it in an
    unknown state.
    """

    def __init__(self, declared: Declared, frame: object) -> None:
        self._declared, self._frame = declared, frame
        self._lock = threading.Lock()
        self._opened: tuple[RecordEngine, weakref.finalize[[], ReusedEngine]] | None = None

    @contextmanager
    def for_one_query(self) -> Iterator[RecordEngine]:
        """Yield the engine for one query.

        Raises
        ------
        DataError
            If the rows can't be read as declared, or the engine can't be set up.
        """
        if not self._lock.acquire(blocking=False):
            with open_duckdb(self._declared, self._frame) as engine:
                yield engine
            return
        try:
            yield self._opened_engine()
        except BaseException:
            self._close()
            raise
        finally:
            self._lock.release()

    def _opened_engine(self) -> RecordEngine:
        """Return the engine, which is opened at the first call."""
        if self._opened is None:
            stack = ExitStack()
            engine = stack.enter_context(open_duckdb(self._declared, self._frame))
            # Closed when the session is collected, or at the end of the process, whichever comes
            # first.
            self._opened = engine, weakref.finalize(self, stack.close)
        return self._opened[0]

    def _close(self) -> None:
        """Close the engine if it is open."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1]()


# Weak, so that a session ends with the last variable that holds it; frames hold only a token.
_LIVE: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True, repr=False)
class Spending:
    """An exact amount of budget: an epsilon and a delta, or a rho.

    With a rho, the delta is what the selection of private keys spends: answers with such a rho and
    delta are together delta-approximately rho-zCDP.
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def __add__(self, other: Spending) -> Spending:
        """Return the sum of two amounts of the same kind."""
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        return Spending(self.epsilon + other.epsilon, self.delta + other.delta, rho)

    def __sub__(self, other: Spending) -> Spending:
        """Return the difference of two amounts of the same kind."""
        rho = None if self.rho is None or other.rho is None else self.rho - other.rho
        return Spending(self.epsilon - other.epsilon, self.delta - other.delta, rho)

    def fits_within(self, left: Spending) -> bool:
        """Return whether a remaining budget `left`, in the same measure, covers this amount."""
        if self.rho is None or left.rho is None:
            same = self.rho is left.rho
            return same and self.epsilon <= left.epsilon and self.delta <= left.delta
        return self.rho <= left.rho and self.delta <= left.delta

    def __repr__(self) -> str:
        return f"<Spending: {self}>"

    def __str__(self) -> str:
        if self.rho is not None:
            return f"rho {float(self.rho):g}" + (
                f", delta {float(self.delta):g}" if self.delta else ""
            )
        return f"epsilon {float(self.epsilon):g}, delta {float(self.delta):g}"


def exact_amount(value: object, what: str) -> Fraction:
    """Return an epsilon, a delta or a rho as an exact fraction.

    A float stands for the decimal number that it prints as. Raises SessionError DP-SESSION-006 for
    a value that no budget can have.
    """
    number = budget_number(what, value)
    if number is None:
        wanted = "number from 0 to below 1" if what == "delta" else "finite number above zero"
        example = "1e-6" if what == "delta" else "'0.5'"
        raise SessionError("DP-SESSION-006", what=what, wanted=wanted, example=example)
    return number


def declared_spending(
    what: str, epsilon: Number | None, delta: Fraction, rho: Number | None
) -> Spending:
    """Return the amount of budget that an epsilon or a rho declares.

    Raises SessionError DP-SESSION-006 for a value that is not a number above zero, and
    DP-SESSION-011 unless exactly one of epsilon and rho is set.
    """
    if (epsilon is None) == (rho is None):
        raise SessionError("DP-SESSION-011", what=what, found="none" if rho is None else "both")
    if rho is not None:
        return Spending(delta=delta, rho=exact_amount(rho, "rho"))
    return Spending(exact_amount(epsilon, "epsilon"), delta)


Schema = str | Path | Mapping[str, object]
"""A table schema by its path, or its content."""


def _declared_tables(schemas: object) -> dict[str, Declared]:
    """Return the tables of one schema, or of a list of schemas, by name.

    Raises UsageError DP-SESSION-016 for anything else, and DeclarationError DP-RELEASE-006 for two
    tables of one name.
    """
    wanted = "the path of a table schema, a table schema as a mapping, or a list of them"
    found: dict[str, Declared] = {}
    for schema in schemas if isinstance(schemas, list | tuple) else [schemas]:
        if not isinstance(schema, str | PathLike | Mapping):
            raise wrong_argument("schema", wanted, schema)
        if isinstance(schema, Mapping):
            one = table_from_mapping(schema, Path.cwd())
        else:
            one = read_table(Path(schema))
        if one.table.name in found:
            raise DeclarationError("DP-RELEASE-006", name=one.table.name)
        found[one.table.name] = one
    return found


@checked_methods
class Session(Summarized):
    """A privacy budget for the people of one table, shared by all frames registered with it.

    Answers compose by adding epsilons and deltas, or by adding rhos. This also holds when each
    query depends on the answers before it (Dwork, Rothblum and Vadhan 2010, and Rogers et al. 2016,
    basic composition; Feldman and Zrnic 2021, arXiv 2008.11193v4, for rho). A session lives in one
    process; it can't be copied, pickled or used after a fork.

    Parameters
    ----------
    schema
        Path of a table schema, or its content as a mapping; or a list with the schemas of one
        table about people, and of public tables, with which `df.dp.sql` can join it.
    epsilon, delta
        The total budget. A float stands for the decimal number that it prints as.
    rho
        The total budget in rho, instead of an epsilon. Queries then take a rho, or an epsilon,
        which is charged as the rho of its noise. `delta` is the delta at which answers report their
        epsilon; private keys spend a part of it.
    neighbours
        "add_remove" or "replace".
    ledger
        A ledger file. Every answer is also charged to the table's budget in this ledger.
    key
        The key that signs the entries of a ledger with signers: an Ed25519 key of OpenSSH, or the
        result of `signing_key`.

    Raises
    ------
    UsageError
        DP-SESSION-016 for a schema of another type, such as a frame; 021 unless exactly one table
        is about people.
    SessionError
        DP-SESSION-006 if the budget is not a number above zero, or delta is not in [0, 1);
        DP-SESSION-011 unless exactly one of epsilon and rho is set.
    DeclarationError
        If the schema is not valid.
    """

    def __init__(
        self,
        schema: Schema | Sequence[Schema],
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        neighbours: str = "add_remove",
        ledger: str | Path | None = None,
        key: str | Path | SigningKey | None = None,
    ) -> None:
        check_paths(None if isinstance(schema, Mapping) else schema, ledger, key)
        self.tables = _declared_tables(schema)
        private = [one for one in self.tables.values() if not one.table.public]
        if len(private) != 1:
            raise UsageError("DP-SESSION-021", number=len(private))
        (self.declared,) = private
        if neighbours not in list(Neighbours):
            raise SessionError("DP-SESSION-007", known=", ".join(Neighbours))
        self.neighbours = Neighbours(neighbours)
        self.delta = exact_amount(delta, "delta")
        self.budget = declared_spending("A session", epsilon, self.delta, rho)
        signing = None if key is None else signing_key_of(key)
        self.ledger = None if ledger is None else Ledger(ledger, signing)
        # A ledger finds a table by its owner and its name.
        if self.ledger is not None and self.table.owner is None:
            raise DeclarationError("DP-RELEASE-011", name=self.table.name)
        self._spent = self.budget - self.budget
        self._frames: dict[str, object] = {}
        self._engines: dict[str, ReusedEngine] = {}
        self._first = ""
        self._lock = threading.Lock()
        self._maker = Maker()
        # By name, because that module imports this one.
        importlib.import_module("dprelease.accessor.frame").register_with_polars()

    @property
    def table(self) -> Table:
        """Return the declared table about people."""
        return self.declared.table

    @property
    def spent(self) -> Spending:
        """Return the budget that all answers so far have spent."""
        return self._spent

    @property
    def remaining(self) -> Spending:
        """Return the budget that is not spent yet."""
        return self.budget - self._spent

    def _charge(self, price: Spending, what: str, state: RunState | None = None) -> None:
        """Add `price` to the spent budget if all of it fits; `state` records whether it did.

        Raises
        ------
        BudgetError
            DP-BUDGET-090 if the budget does not cover the price; then nothing is charged.
        SessionError
            DP-SESSION-005 in a process other than the one that created the session.
        """
        self._refuse_forked_process()
        state = RunState() if state is None else state
        with self._lock:
            left = self.remaining
            if not price.fits_within(left):
                raise BudgetError("DP-BUDGET-090", what=what, price=price, left=left)
            spent, charged = self._spent + price, ChargeState.SPENT
            # One statement without a call, so that no interrupt can come between the two
            # assignments.
            self._spent, state.charge = spent, charged

    def _refund(self, price: Spending) -> None:
        """Subtract a charge from the spent budget, if the query failed before it read a row."""
        self._refuse_forked_process()
        with self._lock:
            self._spent -= price

    @property
    def _first_token(self) -> str:
        """Return the id of the rows that were registered first; empty if there are none."""
        return self._first

    def _register(self, frame: object, *, vouched: bool) -> str | None:
        """Store a snapshot of `frame`, and return its opaque id.

        Returns None if the session already has rows and `vouched` is False; `vouched` is the
        promise of the option `row_wise` of `DpAccessor.use`.

        Raises SessionError DP-SESSION-005 in a process other than the one that created the session.
        """
        self._refuse_forked_process()
        with self._lock:
            if self._first and not vouched:
                return None
            # Random, because frames carry it: one that another process pickled has no token of this
            # session.
            token = Entropy().words(2).tobytes().hex()
            self._frames[token] = attempt(
                self.declared, lambda: snapshot_of(frame, self.declared.rows)
            )
            self._first = self._first or token
            _LIVE[token] = self
            return token

    def _snapshot(self, token: str) -> object:
        """Return the registered rows with an id that `_register` returned."""
        return self._frames[token]

    def _engine(self, token: str) -> AbstractContextManager[QueryEngine]:
        """Return a context manager that yields the engine over registered rows for one query.

        Raises SessionError DP-SESSION-005 in a process other than the one that created the session.
        """
        self._refuse_forked_process()
        with self._lock:
            if token not in self._engines:
                self._engines[token] = ReusedEngine(self.declared, self._frames[token])
        return self._engines[token].for_one_query()

    def __repr__(self) -> str:
        return f"<Session of table {self.table.name!r}: {self.remaining} left of {self.budget}>"

    def _summary(self) -> Summary:
        """Return the budget, what is spent and what is left."""
        amounts = (("budget", self.budget), ("spent", self.spent), ("remaining", self.remaining))
        return f"Session of table {self.table.name!r}", ("", "amount"), amounts

    def _refuse_forked_process(self) -> None:
        """Raise SessionError DP-SESSION-005 in a forked process, which has copies of the budget."""
        if not self._maker.is_here:
            self._raise_session_error("this is another process")

    def _raise_session_error(self, what: str) -> NoReturn:
        """Raise SessionError DP-SESSION-005; `what` names the operation that is not possible."""
        raise SessionError("DP-SESSION-005", what=what)

    def __copy__(self) -> NoReturn:
        self._raise_session_error("copy")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._raise_session_error("deepcopy")

    def __reduce__(self) -> NoReturn:
        self._raise_session_error("pickle")


def session_of(token: str) -> Session:
    """Return the live session that issued a token; raise SessionError DP-SESSION-004."""
    session = _LIVE.get(token)
    if session is None:
        raise SessionError("DP-SESSION-004")
    return session
