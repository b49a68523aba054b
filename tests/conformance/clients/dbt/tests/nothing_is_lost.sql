SELECT * FROM (SELECT sum(total) AS made FROM {{ ref('totals') }}) CROSS JOIN (SELECT sum(amount) AS paid FROM {{ ref('spending') }})
WHERE made != paid
