WITH typed AS (
  SELECT "PUMA", "SEX", "RAC1P", "AGEP" FROM dp_source
),
grouped AS (
  SELECT typed."PUMA" AS k0, typed."SEX" AS k1, CASE WHEN typed."AGEP" IS NULL THEN NULL WHEN typed."AGEP" < 0 THEN NULL WHEN typed."AGEP" < 5 THEN 0 WHEN typed."AGEP" < 15 THEN 1 WHEN typed."AGEP" < 18 THEN 2 WHEN typed."AGEP" < 25 THEN 3 WHEN typed."AGEP" < 45 THEN 4 WHEN typed."AGEP" < 65 THEN 5 WHEN typed."AGEP" < 85 THEN 6 WHEN typed."AGEP" < 100 THEN 7 ELSE NULL END AS k2, typed."RAC1P" AS k3, count(*) AS a0 FROM typed GROUP BY 1, 2, 3, 4
),
meant AS (
  SELECT k0, CASE WHEN "k1" IN ('1', '2') THEN "k1" WHEN regexp_full_match("k1", '[\s\v]*[+-]?0*[0-9]{1,38}(\.0*)?[\s\v]*') THEN CAST(TRY_CAST(trim("k1") AS HUGEINT) AS VARCHAR) WHEN regexp_full_match("k1", '(?i)[\s\v]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)[\s\v]*') THEN CASE WHEN isnan(TRY_CAST(trim("k1") AS DOUBLE)) THEN NULL WHEN TRY_CAST(trim("k1") AS DOUBLE) = trunc(TRY_CAST(trim("k1") AS DOUBLE)) THEN coalesce(CAST(TRY_CAST(TRY_CAST(trim("k1") AS DOUBLE) AS BIGINT) AS VARCHAR), CAST(TRY_CAST(TRY_CAST(trim("k1") AS DOUBLE) AS HUGEINT) AS VARCHAR), CAST(TRY_CAST(trim("k1") AS DOUBLE) AS VARCHAR)) ELSE CAST(TRY_CAST(trim("k1") AS DOUBLE) AS VARCHAR) END ELSE nullif("k1", '') END AS k1, k2, CASE WHEN "k3" IN ('1', '2', '3', '4', '5', '6', '7', '8', '9') THEN "k3" WHEN regexp_full_match("k3", '[\s\v]*[+-]?0*[0-9]{1,38}(\.0*)?[\s\v]*') THEN CAST(TRY_CAST(trim("k3") AS HUGEINT) AS VARCHAR) WHEN regexp_full_match("k3", '(?i)[\s\v]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)[\s\v]*') THEN CASE WHEN isnan(TRY_CAST(trim("k3") AS DOUBLE)) THEN NULL WHEN TRY_CAST(trim("k3") AS DOUBLE) = trunc(TRY_CAST(trim("k3") AS DOUBLE)) THEN coalesce(CAST(TRY_CAST(TRY_CAST(trim("k3") AS DOUBLE) AS BIGINT) AS VARCHAR), CAST(TRY_CAST(TRY_CAST(trim("k3") AS DOUBLE) AS HUGEINT) AS VARCHAR), CAST(TRY_CAST(trim("k3") AS DOUBLE) AS VARCHAR)) ELSE CAST(TRY_CAST(trim("k3") AS DOUBLE) AS VARCHAR) END ELSE nullif("k3", '') END AS k3, a0 FROM grouped
),
placed AS (
  SELECT CAST((list_position(['01-01301', '06-07502', '06-08507', '08-00803', '13-04600', '17-03529', '17-03531', '19-01700', '24-01004', '26-02702', '28-01100', '29-01901', '30-00600', '32-00405', '36-03710', '36-04010', '38-00100', '40-00200', '51-01301', '51-51255'], k0) - 1) AS BIGINT) * 144 + CAST((list_position(['1', '2'], k1) - 1) AS BIGINT) * 72 + CAST(k2 AS BIGINT) * 9 + CAST((list_position(['1', '2', '3', '4', '5', '6', '7', '8', '9'], k3) - 1) AS BIGINT) * 1 AS cell, a0 FROM meant 
),
dp_finest AS (
  SELECT cell, sum(a0) AS a0 FROM placed WHERE cell IS NOT NULL GROUP BY cell
)
SELECT (dp_keys_0.value) * 144 + (dp_finest.cell // 72 % 2) * 72 + (dp_finest.cell // 9 % 8) * 9 + (dp_finest.cell // 1 % 9) * 1 AS cell, CAST(least(greatest(coalesce(sum(a0), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m0
FROM dp_finest JOIN dp_keys_0 ON dp_keys_0.code = dp_finest.cell // 144 % 20 GROUP BY 1
