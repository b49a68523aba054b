SELECT day, sum(amount) AS revenue FROM orders GROUP BY day ORDER BY day
