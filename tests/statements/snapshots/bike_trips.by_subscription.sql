WITH typed AS (
  SELECT "bike_id", nullif("subscription_type", '') AS "subscription_type" FROM dp_source
),
coded AS (
  SELECT * FROM (SELECT typed."bike_id" AS id, CAST(dp_keys_0.code AS BIGINT) * 1 AS cell FROM typed LEFT JOIN dp_keys_0 ON typed."subscription_type" = dp_keys_0.value) WHERE cell IS NOT NULL AND id IS NOT NULL
),
kept AS (
  SELECT id, cell, least(count(*), 5) AS n FROM coded GROUP BY id, cell
)
SELECT cell, CAST(least(greatest(coalesce(sum(n), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m0
FROM kept GROUP BY cell
