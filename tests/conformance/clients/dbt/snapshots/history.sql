{% snapshot history %}
{{ config(unique_key='customer', strategy='check', check_cols=['total'], file_format='iceberg', target_schema=target.schema) }}
SELECT customer, total FROM {{ ref('totals') }}
{% endsnapshot %}
