WITH typed AS (
  SELECT "bike_id", "subscription_type" FROM dp_source
),
coded AS (
  SELECT * FROM (SELECT typed."bike_id" AS id, CAST(CASE WHEN typed."subscription_type" = 'Subscriber' THEN 0 WHEN typed."subscription_type" = 'Customer' THEN 1 END AS BIGINT) * 1 AS cell FROM typed ) WHERE cell IS NOT NULL AND id IS NOT NULL
),
kept AS (
  SELECT id, cell, least(count(*), 5) AS n FROM coded GROUP BY id, cell
)
SELECT cell, CAST(least(greatest(coalesce(sum(n), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m0
FROM kept GROUP BY cell
