"""Turn a SELECT that aggregates rows of people into a declared query over its noised columns.

Such a SELECT is a private core of a statement. Its source, conditions, keys and aggregates declare
a query, as a release file would. The rest of the SELECT is rewritten to read the noised table of
this query, and is post-processing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dprelease.numerics.rounding import plain_text
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.query.expressions.whole import unread_argument_text
from dprelease.query.measurement import WITH_COMPANIONS
from dprelease.query.outer_sql.formulas import ENDS, Formula, confidence_of_each, formula_of
from dprelease.query.outer_sql.functions import written_name
from dprelease.query.outer_sql.identifiers import is_valid_column_name, unused_name
from dprelease.query.outer_sql.public_queries import PublicRows
from dprelease.query.quality import CONFIDENCE
from dprelease.query.select_nodes import (
    AFTER_NOISE,
    AGGREGATE_NODES,
    INTERVALS,
    LONGEST,
    alias_of,
    is_interval,
    measured_nodes_of,
    own_nodes,
    own_nodes_of,
    quoted,
    refuse,
    refuse_equal_names,
    sql_text,
)
from dprelease.query.sql_functions import (
    ADVICE,
    FRACTION_ARGUMENT,
    KEYWORD_OF_FUNCTION,
    is_measured,
    pair_of,
    pair_spec,
)
from dprelease.query.sql_rewrites.select_rows import RowsOfSelect, rewrite_rows
from dprelease.schema.aggregate_keywords import LEVELS, WORDS, Origin, level_of
from dprelease.schema.column_spec import QUANTILES
from dprelease.schema.model import normalized_name
from dprelease.schema.release import PRIVATE_KEYS
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Plain


@dataclass
class PrivateCore:
    """One declared query of a statement, as a release file would declare it.

    `name`: the name of the query. `fields`: for each published column that the outer statement
    reads, its name there. `texts`: the published column of each aggregate, by the SQL of both.
    `rows`: the computed columns and the join of the query. `intervals`: the formulas whose
    intervals the outer statement reads, with the beginning of the names of their ends. They have
    the confidence `confidence`, as all margins.
    """

    name: str
    source: str
    where: str | None
    group_by: list[str]
    columns: dict[str, dict[str, Plain]] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    rows: RowsOfSelect = field(default_factory=RowsOfSelect)
    intervals: dict[Formula, str] = field(default_factory=dict)
    confidence: Fraction = CONFIDENCE

    def field_of(self, column: str, prefix: str) -> exp.Column:
        """Return a published column as the outer statement reads it."""
        name = self.fields.setdefault(column, f"{prefix}{len(self.fields)}")
        return exp.column(name, quoted=True)

    @property
    def same(self) -> tuple[object, ...]:
        """Return what cores have in common that can be measured by one query."""
        return self.source, self.where, tuple(self.group_by), self.rows


class CoreReader:
    """Reads one SELECT as a declared query, and rewrites it to read the query's noised table."""

    def __init__(
        self, select: exp.Select, tables: Mapping[str, Table], confidence: Fraction
    ) -> None:
        self.select, self.tables, self.confidence = select, tables, confidence
        self.aliases: dict[str, exp.Expr] = {}
        self.prefix = ""
        self.core: PrivateCore

    def read(self, rows_of: PublicRows) -> PrivateCore:
        """Return the source, the conditions and the keys, still without columns."""
        rows = rewrite_rows(self.select, self.tables, rows_of)
        self._refuse_unread_clauses()
        source = str(self.select.args["from_"].this.name)
        self._unqualify_columns()
        where = self.select.args.get("where")
        condition = None if where is None else sql_text(where.this)
        self.core = PrivateCore("", source, condition, [], rows=rows, confidence=self.confidence)
        for item in self.select.expressions:
            name = alias_of(item) or item.name
            self.aliases[name] = item.unalias()
        self.core.group_by = [self._key_name(item) for item in self._group_keys()]
        return self.core

    def rewrite(self, core: PrivateCore, table: str, prefix: str, *, margins: bool) -> None:
        """Add the measured columns to `core`, and let the SELECT read its noised table.

        `table`: the name of the noised table in the outer statement, whose measured columns have
        names that begin with `prefix`. `margins`: whether margins and intervals follow the columns
        that are aggregates.
        """
        self.core, self.prefix = core, prefix
        group, where = self.select.args.get("group"), self.select.args.get("where")
        for clause in (group, where):
            if clause is not None:
                clause.pop()
        for item in self.select.expressions:
            if isinstance(item.unalias(), AGGREGATE_NODES):
                self._measured_column(item.unalias(), alias_of(item))
        names = [self._item_name(item) for item in self.select.expressions]
        companions = [
            self._margin_items(item) if margins else [] for item in self.select.expressions
        ]
        self._replace_intervals()
        self._replace_aggregates()
        items = []
        for item, name, added in zip(self.select.expressions, names, companions, strict=True):
            items.append(exp.alias_(item.unalias(), name, quoted=True) if name else item)
            items += [exp.alias_(end, f"{name}_{part}", quoted=True) for part, end in added]
        if margins:
            refuse_equal_names(items)
        self.select.set("expressions", items)
        self._check_columns()
        source = self.select.args["from_"]
        alias = exp.to_identifier(source.this.alias_or_name, quoted=True)
        source.set("this", exp.to_table(table, alias=alias))
        having = self.select.args.get("having")
        if having is not None:
            self.select.set("where", exp.Where(this=having.this))
            self.select.set("having", None)

    def _refuse_unread_clauses(self) -> None:
        """Refuse clauses that would have an effect on rows of people, but that nothing reads."""
        before = self.select.copy()
        for clause in AFTER_NOISE:
            before.set(clause, None)
        parts = [before, *measured_nodes_of(self.select)]
        what = next(filter(None, map(unread_argument_text, parts)), None)
        if what is not None:
            refuse("DP-SQL-002", what=what)
        if any(node is not before for node in before.find_all(exp.Query)):
            refuse("DP-SQL-002", what="a subquery")
        for node in own_nodes_of(self.select):
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                above = node.parent
                if above is not None and is_measured(above):
                    fix = "name a column instead of *, which only COUNT takes"
                    refuse("DP-SQL-006", name=quoted(above), nearest=fix)
                refuse("DP-SQL-002", what="* for all columns")

    def _unqualify_columns(self) -> None:
        """Remove the table's name before its columns, and refuse any other qualifier."""
        table = self.select.args["from_"].this
        own = table.alias or table.name
        for column in own_nodes_of(self.select):
            if not isinstance(column, exp.Column):
                continue
            if not isinstance(column.this, exp.Identifier):
                refuse("DP-SQL-004", what=quoted(column))
            if column.table and column.table != own:
                refuse(
                    "DP-SQL-003",
                    name=f"'{column.table[:LONGEST]}', which is not its table",
                    known=own,
                )
            column.set("table", None)

    def _group_keys(self) -> list[exp.Expr]:
        """Return the keys of GROUP BY, with positions and aliases replaced by their expressions."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            refuse("DP-SQL-002", what="a GROUP BY that is not a list of columns")
        keys = []
        for item in group.expressions:
            if isinstance(item, exp.Literal) and not item.is_string:  # a key by position
                place = int(item.name) if item.name.isdigit() else 0
                if not 1 <= place <= len(self.select.expressions):
                    refuse("DP-SQL-002", what="GROUP BY with a column number that does not exist")
                item = self.select.expressions[place - 1].unalias()
            elif self._is_alias(item):
                item = self.aliases[item.name]
            keys.append(item)
        return keys

    def _is_alias(self, item: exp.Expr) -> bool:
        """Return whether a key names a column of the result, and not one of the table."""
        own = self.tables[self.core.source].columns
        return isinstance(item, exp.Column) and item.name in self.aliases and item.name not in own

    def _key_name(self, item: exp.Expr) -> str:
        """Return the name of a column; refuse any other expression."""
        if not isinstance(item, exp.Column):
            refuse("DP-SQL-004", what=quoted(item))
        return str(item.name)

    def _item_name(self, item: exp.Expr) -> str:
        """Return the name of a column of the result; "" for a key, which has a name already."""
        if isinstance(item, exp.Column):
            return ""
        name = alias_of(item) or self.core.texts.get(sql_text(item), "")
        is_other = not alias_of(item) and name in self.aliases  # of the same aggregate
        return quoted(item) if is_other or not name else name

    def _replace_aggregates(self) -> None:
        """Replace each aggregate by the column of the noised table that holds it."""
        for node in list(measured_nodes_of(self.select)):
            name = self._measured_column(node)
            node.replace(self.core.field_of(name, self.prefix))

    def _replace_intervals(self) -> None:
        """Replace each DP_INTERVAL_LOW(x) and DP_INTERVAL_HIGH(x) by the end of the interval."""
        for node in list(own_nodes_of(self.select)):
            if not is_interval(node):
                continue
            inner = node.expressions[0] if len(node.expressions) == 1 else node
            if isinstance(inner, exp.Column):
                inner = self._expression_of_name(inner) or inner
            ends = self._ends_of(inner)
            if isinstance(ends, str) or not ends:
                reason = f", because {ends}," if ends else ""
                fix = "use it for aggregates, as in DP_INTERVAL_LOW(SUM(x) / COUNT(*))"
                refuse("DP-SQL-006", name=f"{quoted(node)}{reason}", nearest=fix)
            is_low = node.name.upper() == INTERVALS[0]
            if "moe" in ends:
                value = self.core.field_of(self._measured_column(inner), self.prefix)
                end = (exp.Sub if is_low else exp.Add)(this=value, expression=ends["moe"])
                node.replace(exp.Paren(this=end))
            else:
                node.replace(ends["lower" if is_low else "upper"])

    def _margin_items(self, item: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """Return the margin or the ends of the interval of an item, with their suffixes, if any."""
        ends = {} if isinstance(item, exp.Column) else self._ends_of(item.unalias())
        return [] if isinstance(ends, str) else list(ends.items())

    def _ends_of(self, body: exp.Expr) -> dict[str, exp.Expr] | str:
        """Return the margin or the ends of an expression, by suffix, or why it has no interval."""
        if not isinstance(body, AGGREGATE_NODES):
            return self._ends_of_formula(body)
        name = self._measured_column(body)
        spec = self.core.columns[name]
        origin = next(word.origin for keyword, word in WORDS.items() if keyword in spec)
        if origin is Origin.LABEL:
            return {}
        parts = ["moe"] if origin is Origin.NOISED else ["lower", "upper"]
        if origin is Origin.NOISED:
            spec.setdefault("margin", plain_text(self.confidence))
        spec.pop("interval", None)
        return {part: self.core.field_of(f"{name}_{part}", self.prefix) for part in parts}

    def _ends_of_formula(self, body: exp.Expr) -> dict[str, exp.Expr] | str:
        """Return the ends of the interval of arithmetic on aggregates, or why it has none."""
        found = formula_of(body, self._expression_of_name)
        if isinstance(found, str):
            return found
        formula, aggregates = found
        specs = {text: self._aggregate_spec(node) for text, node in aggregates.items()}
        for text, (kind, column, _) in specs.items():
            if WORDS[kind].origin is Origin.LABEL or self._is_date(column, kind):
                return f"{text[:LONGEST]} is not a number"
            if WORDS[kind].origin is Origin.CHOSEN and len(specs) > 1:
                return f"{text[:LONGEST]} is a quantile, whose interval fits no other aggregate"
        names = {}
        for text, (kind, _, _) in specs.items():
            size = len(specs) if WORDS[kind].origin is Origin.COMPUTED else 1
            each = confidence_of_each(size, self.confidence)
            names[text] = self._measured_column(aggregates[text], confidence=each)
            self.core.columns[names[text]].pop("interval", None)
        prefix = f"{self.prefix}interval{len(self.core.intervals)}_"
        prefix = self.core.intervals.setdefault(formula.with_columns(names), prefix)
        return {end: exp.column(f"{prefix}{end}", quoted=True) for end in ENDS}

    def _expression_of_name(self, column: exp.Column) -> exp.Expr | None:
        """Return the expression for which a name of the SELECT list stands; None for a key."""
        name = column.name.casefold()
        if name in {key.casefold() for key in self.core.group_by}:
            return None
        return next((body for one, body in self.aliases.items() if one.casefold() == name), None)

    def _is_date(self, column: str, kind: str) -> bool:
        """Return whether the values of an aggregate are dates."""
        declared = self.tables[self.core.source].columns.get(column)
        kind_of_column = getattr(declared, "type", None)
        if column in self.core.rows.derive:
            kind_of_column = self.core.rows.derive[column].get("type")
        return kind_of_column == "date" and WORDS[kind].origin is Origin.CHOSEN

    def _measured_column(
        self, node: exp.Expr, alias: str = "", confidence: Fraction | None = None
    ) -> str:
        """Return the published column that holds an aggregate; add the column if it is new.

        `confidence`: that of the interval of a computed column. A column with another one is added.
        """
        text = sql_text(node)
        is_other = confidence not in (None, self.confidence)
        margin = {"margin": plain_text(confidence)} if is_other and confidence else {}
        text += f" {margin['margin']}" if margin else ""
        if text not in self.core.texts:
            kind, column, spec = self._aggregate_spec(node)
            names = [f"{name}{part}" for name in self.core.columns for part in WITH_COMPANIONS]
            taken = {normalized_name(name) for name in (*names, *self.core.group_by, PRIVATE_KEYS)}
            default_name = f"{kind}_{'rows' if column == '*' else column}"
            name = alias if is_valid_column_name(alias, taken) else unused_name(default_name, taken)
            self.core.columns[name] = {kind: spec, **margin}
            if kind in QUANTILES:  # an answer has the columns of its SELECT list and no others
                self.core.columns[name]["interval"] = "false"
            self.core.texts[text] = name
            self.core.field_of(name, self.prefix)
        return self.core.texts[text]

    def _aggregate_spec(self, node: exp.Expr) -> tuple[str, str, Plain]:
        """Return an aggregate's keyword, its column, and its declaration in a release file."""
        if not is_measured(node):
            refuse("DP-SQL-006", name=f"The aggregate {written_name(node)}", nearest=ADVICE)
        pair = pair_of(node)
        if pair is not None:
            first, second = map(self._key_name, pair)
            kind, spec = pair_spec(node, first, second)
            return kind, f"{first}_{second}", spec
        inner = node.this
        if inner is None or (isinstance(inner, exp.Distinct) and not isinstance(node, exp.Count)):
            fix = ADVICE if inner is None else "leave out DISTINCT, which only COUNT takes"
            refuse("DP-SQL-006", name=quoted(node), nearest=fix)
        if isinstance(node, exp.Count):
            if isinstance(inner, exp.Distinct):
                column = self._key_name(inner.expressions[0])
                return "count_distinct", column, column
            column = "*" if isinstance(inner, exp.Star) else self._key_name(inner)
            return "count", column, column
        column = self._key_name(inner)
        if type(node) not in FRACTION_ARGUMENT:
            return KEYWORD_OF_FUNCTION[type(node)], column, column
        part = node.args.get(FRACTION_ARGUMENT[type(node)])
        at = part.name if isinstance(part, exp.Literal) and not part.is_string else ""
        if level_of(at) is None:
            name = f"{quoted(node)}, because its fraction is no {LEVELS},"
            refuse("DP-SQL-006", name=name, nearest=f"write QUANTILE_CONT({column}, 0.9)")
        return "quantile", column, {"of": column, "at": at}

    def _check_columns(self) -> None:
        """Refuse columns that are neither keys, nor measured, nor names of the SELECT list."""
        ends = [f"{start}{end}" for start in self.core.intervals.values() for end in ENDS]
        known = {*self.core.group_by, *self.core.fields.values(), *ends}
        for item in self.select.expressions:
            self._check_names(item, known)
            known = known | {alias_of(item)}
        for clause in ("having", "qualify", "order", "windows"):
            nodes = self.select.args.get(clause)
            for node in nodes if isinstance(nodes, list) else [nodes] if nodes else []:
                self._check_names(node, known)

    def _refuse_unknown_keys(self, table: Table) -> None:
        """Refuse a key that is no column; then other names only seem to be missing in GROUP BY."""
        rows = self.core.rows
        joined = {} if rows.join is None else self.tables[str(rows.join["table"])].columns
        for name in self.core.group_by:
            if name not in {*table.columns, *rows.derive, *joined}:
                refuse("DP-QUERY-001", **unknown_column(table, name))

    def _check_names(self, node: exp.Expr, known: Collection[str]) -> None:
        """Refuse the columns of an expression that are not known over the noised table."""
        folded = {name.casefold() for name in known}
        for column in own_nodes(node):
            if not isinstance(column, exp.Column) or column.name.casefold() in folded:
                continue
            table = self.tables[self.core.source]
            named = self.aliases.get(column.name, column)
            is_known = not isinstance(named, exp.Column) or named.name != column.name
            self._refuse_unknown_keys(table)
            if column.name in table.columns or is_known:
                refuse("DP-SQL-004", what=column.name[:LONGEST])
            refuse("DP-QUERY-001", **unknown_column(table, column.name))
