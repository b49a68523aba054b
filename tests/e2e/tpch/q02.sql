-- Minimum cost supplier.
WITH european AS (
  SELECT s_suppkey, s_acctbal, s_name, s_address, s_phone, s_comment, n_name, ps_partkey, ps_supplycost
  FROM partsupp
  JOIN supplier ON s_suppkey = ps_suppkey
  JOIN nation ON n_nationkey = s_nationkey
  JOIN region ON r_regionkey = n_regionkey
  WHERE r_name = 'EUROPE'
)
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part
JOIN european ON p_partkey = ps_partkey
WHERE p_size = 15
  AND p_type LIKE '%BRASS'
  AND ps_supplycost = (SELECT min(cheapest.ps_supplycost) FROM european AS cheapest WHERE cheapest.ps_partkey = p_partkey)
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
LIMIT 100
