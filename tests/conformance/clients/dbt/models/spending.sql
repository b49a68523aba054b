{{ config(materialized='view') }}
SELECT customer, CAST(amount AS DECIMAL(10, 2)) AS amount, CAST(day AS DATE) AS day FROM {{ ref('orders') }}
