{{ config(materialized='incremental', incremental_strategy='merge', unique_key='customer', file_format='iceberg') }}
SELECT customer, total FROM {{ ref('totals') }}
