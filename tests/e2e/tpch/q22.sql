-- Global sales opportunity.
WITH candidate AS (
  SELECT c_custkey, c_acctbal, substring(c_phone, 1, 2) AS cntrycode
  FROM customer
  WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
)
SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal
FROM candidate
WHERE c_acctbal > (SELECT avg(c_acctbal) FROM candidate WHERE c_acctbal > 0.00)
  AND NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)
GROUP BY cntrycode
ORDER BY cntrycode
