WITH typed AS (
  SELECT * FROM (SELECT "bike_id", "start_terminal", "duration" FROM dp_source) WHERE (("duration" >= 60) AND ("duration" < 86400))
),
coded AS (
  SELECT * FROM (SELECT typed."bike_id" AS id, CAST(dp_keys_0.code AS BIGINT) * 1 AS cell, CAST(CASE WHEN typed."duration" < 0 THEN 0 WHEN typed."duration" > 3600 THEN 3600 ELSE typed."duration" END AS BIGINT) AS v2 FROM typed LEFT JOIN dp_keys_0 ON typed."start_terminal" = dp_keys_0.value) WHERE cell IS NOT NULL AND id IS NOT NULL
),
in_group AS (
  SELECT * FROM coded QUALIFY row_number() OVER (PARTITION BY id, cell ORDER BY md5(concat_ws('|', coalesce(CAST(cell AS VARCHAR), '-'), coalesce(CAST(v2 AS VARCHAR), '-')))) <= 5
),
chosen AS (
  SELECT id, cell FROM (SELECT DISTINCT id, cell FROM coded) QUALIFY row_number() OVER (PARTITION BY id ORDER BY md5(concat_ws('|', coalesce(CAST(id AS VARCHAR), '-'), coalesce(CAST(cell AS VARCHAR), '-'))), cell) <= 8
),
kept AS (
  SELECT in_group.* FROM in_group SEMI JOIN chosen USING (id, cell)
)
SELECT cell, CAST(least(greatest(coalesce(count(*), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m0, CAST(least(greatest(coalesce(count(DISTINCT id), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m1, CAST(least(greatest(coalesce(sum(v2), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m2
FROM kept GROUP BY cell
