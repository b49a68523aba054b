"""Queries with constants, drawn at random."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from ..meanings import NULL, TRUE, Call, Expr, Result, chosen, column, first, strict
from .groups import Constant, Groups, Window
from .joins import Join

Query = Groups | Join
V, W, ID, D, E, K, S, B = (column(name) for name in ("v", "w", "id", "d", "e", "k", "s", "b"))
P, Q = column("p"), column("q")
P, Q = replace(P, text="{p}"), replace(Q, text="{q}")
ONE = Expr("1", lambda _: 1)
FALSE = Expr("1 = 0", lambda _: False)


def is_one(constant: Expr) -> Expr:
    """Returns a condition of a constant."""
    return strict("{} = 1", lambda value: value == 1, constant)


def among_one(constant: Expr) -> Expr:
    """Returns an IN list of one."""
    return strict("{} IN (1)", lambda value: value == 1, constant)


CONDITIONS = (
    is_one(P),
    among_one(P),
    strict("{} < 2", lambda value: value < 2, P),
    strict("{} > {}", lambda p, q: p > q, P, Q),
)
NUMBERS = (
    *(V, V, W, W, ID, D, E),
    strict("{} + {}", lambda a, b: a + b, V, W),
    strict("{} * {}", lambda a, b: a * b, V, P),
    strict("{} + {} - {}", lambda a, b, c: a + b - c, V, P, P),
    chosen("IF({}, {}, {})", is_one(P), V, W),
    chosen("CASE WHEN {} THEN {} ELSE {} END", among_one(Q), W, ID),
    chosen("IF({}, {}, {})", is_one(P), D, E),
    chosen("IF({}, {}, {})", CONDITIONS[3], V, NULL),
    first("coalesce({}, {})", V, P),
    first("coalesce({}, {})", P, V),
    first("coalesce(nullif({}, 1), w)", Expr("{p}", lambda row: None if row["p"] == 1 else row["p"]), W),
    P,
    ONE,
)
FILTERS = (
    *(B, B),
    strict("{} > {}", lambda a, b: a > b, V, Q),
    strict("{} IN ({})", lambda a, b: a == b, K, P),
    strict("{} IN (1)", lambda a: a == 1, K),
    strict("{} = 'a'", lambda a: a == "a", S),
    *(is_one(P), CONDITIONS[2], TRUE, FALSE),
)
WHERES = (
    *(TRUE, TRUE, TRUE),
    strict("{} < 2", lambda value: value < 2, P),
    strict("{} > {}", lambda a, b: a > b, V, Q),
    strict("{} > {}", lambda a, b: a > b, W, P),
    strict("{} IN (1)", lambda a: a == 1, K),
    strict("{} IN (1, 2)", lambda a: a in (1, 2), K),
    *(FALSE, is_one(P), B),
)
# Lists of a key, by which distinct counts share their state.
LISTS = (
    strict("{} IN (1, 2)", lambda a: a in (1, 2), K),
    strict("{} IN (2, 1)", lambda a: a in (1, 2), K),
    strict("{} IN (1, 3)", lambda a: a in (1, 3), K),
    strict("{} IN (1, 2, 3)", lambda a: a in (1, 2, 3), K),
    strict("{0} = 1 OR {0} = 2", lambda a: a in (1, 2), K),
    strict("{} IN ({}, 2)", lambda a, p: a in (p, 2), K, P),
    strict("{} IN ('a', 'b')", lambda a: a in ("a", "b"), S),
    strict("{} IN ('b', 'c', 'a')", lambda a: a in ("a", "b", "c"), S),
)
KEYS = (
    *(K, K, S),
    strict("{} + {}", lambda a, b: a + b, K, P),
    chosen("IF({}, {}, {})", is_one(P), K, strict("{} % 2", lambda a: a % 2, K)),
    first("coalesce({}, 'none')", S, Expr("'none'", lambda _: "none")),
    chosen("CASE WHEN {} THEN {} ELSE {} END", among_one(Q), S, Expr("'x'", lambda _: "x")),
)
KEYS = (*KEYS[:5], replace(KEYS[5], text="coalesce(s, 'none')"), KEYS[6])
WINDOWS = (
    *(Window("window", 60), Window("TUMBLE", 60), Window("TUMBLE", 40), Window("HOP", 60, 20), Window("HOP", 60, 30)),
    *(Window("CUMULATE", 60, 20), Window("CUMULATE", 80, 20), Window("SESSION", 15), Window("SESSION", 12)),
)
_RULE = "org.apache.spark.sql.catalyst.optimizer."
RULES = (
    *("ConstantFolding", "NullPropagation", "SimplifyConditionals", "BooleanSimplification", "OptimizeIn"),
    *("EliminateAggregateFilter", "DecimalAggregates", "CollapseProject", "PushDownPredicates", "ColumnPruning"),
    *("ReplaceNullWithFalseInPredicate", "ReorderAssociativeOperator", "PruneFilters", "PropagateEmptyRelation"),
    *("InferFiltersFromConstraints", "ConstantPropagation", "FoldablePropagation", "RemoveRedundantAliases"),
    *("SimplifyBinaryComparison", "PushPredicateThroughJoin", "CombineFilters", "UnwrapCastInBinaryComparison"),
    *("PushFoldableIntoBranches", "RemoveDispensableExpressions", "OptimizeUpdateFields", "RemoveNoopOperators"),
)  # fmt: skip
SETTINGS = (
    ("spark.sql.ansi.enabled", "false"),
    ("spark.sql.caseSensitive", "true"),
    ("spark.sql.decimalOperations.allowPrecisionLoss", "false"),
    ("spark.sql.legacy.literal.pickMinimumPrecision", "false"),
    ("spark.sql.legacy.statisticalAggregate", "true"),
    ("spark.sql.session.timeZone", "Asia/Tokyo"),
)
HARMLESS = (
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.autoBroadcastJoinThreshold", "-1"),
    ("spark.sql.adaptive.optimizer.excludedRules", f"{_RULE}ConstantFolding"),
    ("spark.sql.optimizer.collapseProjectAlwaysInline", "true"),
    ("spark.sql.optimizer.avoidCollapseUDFWithExpensiveExpr", "false"),
    ("spark.sql.optimizer.expression.nestedPruning.enabled", "false"),
    ("spark.sql.optimizer.inSetConversionThreshold", "0"),
    ("spark.sql.optimizer.maxIterations", "1"),
    ("spark.sql.optimizer.propagateDistinctKeys.enabled", "false"),
    ("spark.sql.optimizer.canChangeCachedPlanOutputPartitioning", "false"),
    ("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", "true"),
    ("spark.sql.execution.removeRedundantProjects", "false"),
    ("spark.sql.execution.replaceHashWithSortAgg", "true"),
    ("spark.sql.cbo.enabled", "true"),
    ("spark.sql.codegen.wholeStage", "true"),
    ("spark.sql.shuffle.partitions", "3"),
    ("spark.sql.groupByAliases", "false"),
)


def call(drawn: random.Random, *, distinct: bool = False) -> Call:
    """Returns a call of an aggregate."""
    where = drawn.choice(FILTERS) if drawn.random() < 0.3 else None
    match drawn.choice(
        ("sum", "sum", "sum", "count", "rows", "min", "max", "avg", "xor", "count if", "text", "distinct")
    ):
        case "rows":
            return Call("rows", ONE, where)
        case "count if":
            return Call("count if", drawn.choice(FILTERS[:8]), None)
        case "xor":
            return Call("xor", drawn.choice((V, W, ID, NUMBERS[7])), where)
        case "text":
            return Call(drawn.choice(("min", "max", "count")), S, where)
        case "distinct" if distinct:
            return Call("count distinct", drawn.choice((V, K, S)), None)
        case "distinct":
            return Call("sum", drawn.choice((V, W)), None)
        case function:
            return Call(function, drawn.choice(NUMBERS), where)


def result(drawn: random.Random, *, distinct: bool = False) -> Result:
    """Returns a column of a query over groups."""

    def number() -> Result:
        while (made := call(drawn)).of is S:
            pass
        return Result("call", call=made)

    kind = drawn.choice(
        ("call", "call", "call", "if", "if", "if null", "case", "coalesce", "plus", "times", "number", "null")
    )
    match kind:
        case "call":
            return Result("call", call=call(drawn, distinct=distinct))
        case "if" | "case":
            return Result(kind, (number(), number()), condition=drawn.choice(CONDITIONS))
        case "if null":
            parts = [number(), Result("null")]
            drawn.shuffle(parts)
            return Result("if", tuple(parts), condition=drawn.choice(CONDITIONS))
        case "coalesce":
            branch = Result("if", (Result("null"), number()), condition=drawn.choice(CONDITIONS))
            return Result("coalesce", (drawn.choice((branch, number())), number()))
        case "plus":
            return Result("plus", (number(), drawn.choice((number(), Result("number", condition=P)))))
        case "times":
            return Result("times", (number(),), condition=P)
        case "number":
            return Result("number", condition=drawn.choice((P, Q)))
        case _:
            return Result("null")


def constants(drawn: random.Random) -> tuple[Constant, ...]:
    """Returns the two constants of a query."""
    ways = ("literal", "parameter", "variable")
    return tuple(
        Constant(name, drawn.choice(values), drawn.choice(ways)) for name, values in (("p", (0, 1, 2)), ("q", (1, 3)))
    )


def conf(drawn: random.Random) -> tuple[tuple[str, str], ...]:
    """Returns settings that an old query begins with."""
    match drawn.choice((0, 0, 0, 0, 1, 1, 2)):
        case 0:
            return ()
        case 1:
            return (excluded(drawn),)
        case _:
            return (drawn.choice(SETTINGS),)


def excluded(drawn: random.Random) -> tuple[str, str]:
    """Returns a setting that takes rules from the optimiser."""
    rules = drawn.sample(RULES, drawn.choice((1, 2, 4)))
    return "spark.sql.optimizer.excludedRules", ",".join(f"{_RULE}{rule}" for rule in sorted(rules))


def query(drawn: random.Random) -> Query:
    """Returns a query."""
    shape = drawn.random()
    if shape < 0.2:
        return join(drawn)
    if shape < 0.3:
        return listed(drawn)
    is_windowed = drawn.random() < 0.45
    appends = is_windowed and drawn.random() < 0.6
    window = drawn.choice(WINDOWS) if is_windowed else None
    distinct = appends and window is not None and window.kind != "SESSION" and drawn.random() < 0.3
    keys = tuple(drawn.sample(KEYS, drawn.choice((0, 1, 1, 2) if is_windowed else (0, 1, 1, 1, 1, 2))))
    results = tuple(result(drawn, distinct=distinct) for _ in range(drawn.choice((1, 2, 2, 3, 3, 4))))
    hidden = tuple(result(drawn) for _ in range(drawn.choice((0, 0, 0, 0, 1))))
    having = (Call("rows", ONE), drawn.choice((P, Q, ONE))) if drawn.random() < 0.15 else None
    return Groups(
        keys=keys,
        results=results,
        constants=constants(drawn),
        where=drawn.choice(WHERES),
        window=window,
        having=having,
        hidden=hidden,
        mode="append" if appends else "complete",
        style=drawn.choice(("plain", "subquery", "with")),
        conf=conf(drawn),
    )


def listed(drawn: random.Random) -> Groups:
    """Returns a query whose distinct counts share their state between the values of a listed key."""
    return Groups(
        keys=tuple(drawn.sample((K, S), drawn.choice((1, 1, 2)))),
        results=tuple(
            Result("call", call=each)
            for each in drawn.sample(
                (Call("count distinct", V), Call("rows", ONE), Call("sum", W), Call("count distinct", S)),
                drawn.choice((1, 2)),
            )
        ),
        constants=constants(drawn),
        where=drawn.choice(LISTS),
        window=drawn.choice(WINDOWS[:7]),
        mode="append",
        style=drawn.choice(("plain", "subquery", "with")),
    )


def of_side(expression: Expr, side: str) -> Expr:
    """Returns an expression over the columns of one side of a join."""
    text = expression.text
    for name in ("id", "v", "w", "d", "e", "k", "s", "b"):
        text = _whole(text, name, f"{side}_{name}")
    names = {f"{side}_{name}": name for name in ("id", "v", "w", "d", "e", "k", "s", "b")}
    return Expr(text, lambda row: expression.value({**row, **{short: row[long] for long, short in names.items()}}))


def _whole(text: str, name: str, other: str) -> str:
    return re.sub(rf"(?<![\w{{'_]){name}(?![\w'(}}])", other, text)


def join(drawn: random.Random) -> Join:
    """Returns a join of two streams."""
    two = strict("{} < {}", lambda a, b: a < b, column("l_v"), column("r_w"))
    either = Expr("({p} = 1 OR l_id < r_id)", lambda row: row["p"] == 1 or row["l_id"] < row["r_id"])
    return Join(
        results=tuple(joined(drawn) for _ in range(drawn.choice((1, 2, 3, 3)))),
        constants=constants(drawn),
        left=drawn.choice(WHERES),
        right=drawn.choice(WHERES),
        condition=drawn.choice((TRUE, TRUE, TRUE, two, either, is_one(P))),
        other=drawn.choice(("other", "other", "other", "one")),
        style=drawn.choice(("plain", "subquery")),
        conf=conf(drawn),
    )


def joined(drawn: random.Random) -> Expr:
    """Returns a column of a join."""
    one, other = (of_side(drawn.choice(NUMBERS[:7]), side) for side in ("l", "r"))
    match drawn.choice(("one", "one", "either", "of side", "case", "first", "sum")):
        case "one":
            return drawn.choice((one, other))
        case "either":
            return chosen("IF({}, {}, {})", drawn.choice(CONDITIONS), one, other)
        case "of side":
            return of_side(drawn.choice(NUMBERS), drawn.choice(("l", "r")))
        case "case":
            return chosen(
                "CASE WHEN {} THEN {} ELSE {} END", drawn.choice(CONDITIONS), other, drawn.choice((one, NULL))
            )
        case "first":
            return first("coalesce({}, {})", drawn.choice((one, P)), other)
        case _:
            return strict("{} + {}", lambda a, b: a + b, one, other)
