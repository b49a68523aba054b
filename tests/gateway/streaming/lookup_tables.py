"""Tables in PostgreSQL that a STREAM is joined with in tests, views of them, and conditions of joins."""

from __future__ import annotations

CUSTOMERS = """
CREATE TABLE customers (id int PRIMARY KEY, name text, "Since" timestamptz, country char(4), credit numeric(12,2));
INSERT INTO customers SELECT n, 'c' || n, '2026-01-01 00:00:00+00'::timestamptz + n * interval '1 day', 'de', n / 4.0
FROM generate_series(1, 1000) n;
CREATE TYPE mood AS ENUM ('glad');
CREATE TABLE keys (small smallint, whole int, large bigint, txt text, short varchar(5), exact numeric(12,2), day date,
    local timestamp, moment timestamptz, number uuid, yes boolean, "Mixed Case" text, approximate float8, felt mood, "select" text);
INSERT INTO keys VALUES
    (1, 1, 1, 'a', 'a', 1.50, '2026-01-01', '2026-01-01 01:02:03.123456', '2026-01-01 01:02:03.123456+00',
     '6f2c1a52-5b4e-4f3c-9d57-000000000001', true, 'A', 1, 'glad', 'one'),
    (1, 1, 1, 'a', 'b', 1.50, '2026-01-01', NULL, '2026-01-01 00:00:00+00', NULL, false, 'a', 1, 'glad', 'again'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'without a key');
"""
ROWS = """
SELECT * FROM VALUES
    (1, 1L, 'a', 1.5BD, DATE '2026-01-01', TIMESTAMP '2026-01-01 01:02:03.123456', '6f2c1a52-5b4e-4f3c-9d57-000000000001', true),
    (2, 1L, 'A', 1.50BD, DATE '1900-01-01', TIMESTAMP '2026-01-01 00:00:00', 'no number', false),
    (3, 5000000000L, '\\u0000', 9.99BD, DATE '2026-01-01', TIMESTAMP '1900-01-01 00:00:00', '6F2C1A52-5B4E-4F3C-9D57-000000000001', true),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
    AS rows(row, l, s, n, d, t, u, b)
"""
# Conditions of a join of STREAM s with the table k; those in capitals keep the rows of s.
CONDITIONS = {
    "small": "s.l = k.small",
    "WHOLE": "s.l = k.whole",
    "large": "s.l = k.large AND k.short <> s.s",
    "text": "s.s = k.txt",
    "SHORT": "k.short = s.s",
    "exact": "s.n = k.exact",
    "day": "s.d = k.day",
    "local": "s.t = k.local",
    "MOMENT": "s.t = k.moment",
    "NUMBER": "s.u = k.number",
    "yes": "s.b = k.yes",
    "quoted": "s.s = k.`Mixed Case`",
    "TWO": "s.l = k.whole AND s.b = k.yes",
    "computed": "s.l + 0 = k.whole AND upper(s.s) = k.`Mixed Case`",
}
VIEWS = {  # each named `v`, with the columns (customer_id, called)
    "columns_renamed": ("VIEW $.v (customer_id, called) AS SELECT id, name FROM $.customers",),
    "a_view_of_a_view": (
        "VIEW $.w AS SELECT name AS called, id, id AS customer_id, country FROM $.customers",
        "VIEW $.v AS SELECT customer_id, called FROM (SELECT * FROM $.w) AS i",
    ),
    "a_table_of_a_catalog": ("VIEW $.v AS SELECT c.id AS customer_id, c.name AS called FROM pg.public.customers AS c",),
    "a_with_and_a_char": (
        "VIEW $.v AS WITH c AS (SELECT * FROM $.customers) SELECT country AS called, id AS customer_id FROM c",
    ),
}
# By the text, what the refusal says of it.
COMPUTING_VIEWS = {
    "SELECT id, upper(name) AS name FROM $.customers": "whose column name is computed, upper(",
    "SELECT CAST(id AS BIGINT) AS id, name FROM $.customers": "whose column id is computed, CAST(",
    "SELECT id, name FROM $.customers WHERE id > 1": "as a query with Filter",
    "SELECT id, max(name) AS name FROM $.customers GROUP BY id": "as a query with Aggregate",
}
