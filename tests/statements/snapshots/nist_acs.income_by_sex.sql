WITH typed AS (
  SELECT * FROM (SELECT CASE WHEN "SEX" IN ('1', '2') THEN "SEX" WHEN regexp_full_match("SEX", '[\s\v]*[+-]?0*[0-9]{1,38}(\.0*)?[\s\v]*') THEN CAST(TRY_CAST(trim("SEX") AS HUGEINT) AS VARCHAR) WHEN regexp_full_match("SEX", '(?i)[\s\v]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)[\s\v]*') THEN CASE WHEN isnan(TRY_CAST(trim("SEX") AS DOUBLE)) THEN NULL WHEN TRY_CAST(trim("SEX") AS DOUBLE) = trunc(TRY_CAST(trim("SEX") AS DOUBLE)) THEN coalesce(CAST(TRY_CAST(TRY_CAST(trim("SEX") AS DOUBLE) AS BIGINT) AS VARCHAR), CAST(TRY_CAST(TRY_CAST(trim("SEX") AS DOUBLE) AS HUGEINT) AS VARCHAR), CAST(TRY_CAST(trim("SEX") AS DOUBLE) AS VARCHAR)) ELSE CAST(TRY_CAST(trim("SEX") AS DOUBLE) AS VARCHAR) END ELSE nullif("SEX", '') END AS "SEX", "AGEP", nullif("PINCP", 'nan'::DOUBLE) AS "PINCP" FROM dp_source) WHERE ("AGEP" >= 15)
),
coded AS (
  SELECT * FROM (SELECT NULL AS id, CAST(CASE WHEN typed."SEX" = '1' THEN 0 WHEN typed."SEX" = '2' THEN 1 END AS BIGINT) * 1 AS cell, (CAST(CASE WHEN typed."PINCP" IS NOT NULL THEN CAST(round(least(greatest(CAST(typed."PINCP" AS DOUBLE), 0.0::DOUBLE), 150000.0::DOUBLE)) AS BIGINT) END AS BIGINT) - 0) AS v0 FROM typed ) WHERE cell IS NOT NULL
),
kept AS (
  SELECT * FROM coded
)
SELECT cell, v0 AS v, count(*) AS n
FROM kept WHERE v0 IS NOT NULL GROUP BY cell, v0
