-- Important stock identification. The fraction is 0.0001 divided by the scale factor, here 0.1.
WITH german AS (
  SELECT ps_partkey, ps_supplycost * ps_availqty AS stock_value
  FROM partsupp
  JOIN supplier ON s_suppkey = ps_suppkey
  JOIN nation ON n_nationkey = s_nationkey
  WHERE n_name = 'GERMANY'
)
SELECT ps_partkey, sum(stock_value) AS total_value
FROM german
GROUP BY ps_partkey
HAVING sum(stock_value) > (SELECT sum(stock_value) * 0.001 FROM german)
ORDER BY total_value DESC, ps_partkey
