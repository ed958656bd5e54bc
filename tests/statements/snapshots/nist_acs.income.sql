WITH typed AS (
  SELECT * FROM (SELECT "PUMA", "AGEP", nullif("PINCP", 'nan'::DOUBLE) AS "PINCP" FROM dp_source) WHERE ("AGEP" >= 15)
),
meant AS (
  SELECT typed."PUMA" AS k0, count(*) AS a0, sum(CASE WHEN typed."PINCP" IS NOT NULL THEN CAST(round(least(greatest(CAST(typed."PINCP" AS DOUBLE), 0.0::DOUBLE), 150000.0::DOUBLE)) AS BIGINT) END) AS a1, count(typed."PINCP") AS a2 FROM typed GROUP BY 1
),
placed AS (
  SELECT CAST((list_position(['01-01301', '06-07502', '06-08507', '08-00803', '13-04600', '17-03529', '17-03531', '19-01700', '24-01004', '26-02702', '28-01100', '29-01901', '30-00600', '32-00405', '36-03710', '36-04010', '38-00100', '40-00200', '51-01301', '51-51255'], k0) - 1) AS BIGINT) * 1 AS cell, a0, a1, a2 FROM meant 
)
SELECT coalesce(cell, 20) AS cell, CAST(least(greatest(coalesce(sum(a0), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m0, CAST(least(greatest(coalesce(sum(a1) + sum(a2) * (-75000)::HUGEINT, 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m1, CAST(least(greatest(coalesce(sum(a2), 0), -4611686018427387904::HUGEINT), 4611686018427387904::HUGEINT) AS BIGINT) AS m2
FROM placed GROUP BY cell
