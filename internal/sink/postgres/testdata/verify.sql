-- The rows that the table has otherwise.
SELECT * FROM (
  SELECT s.n, t.ctid IS NOT NULL AS there,
    NULL AS c0,
    CASE WHEN s.c2 IS DISTINCT FROM t."total" THEN coalesce('v' || t."total"::text, 'n') END AS c2,
    CASE WHEN s.c1 IS DISTINCT FROM t."customer_id" THEN coalesce('v' || t."customer_id"::text, 'n') END AS c1,
    s.gone
  FROM (SELECT s.*, (SELECT "cid" FROM "public"."customers_t" weir_1 WHERE "nr" = s.h2) FROM (VALUES
    (0, false, '1'::bigint, '5'::bigint, '7'::bigint),
    (1, false, '2'::bigint, NULL::bigint, NULL::bigint)) s (n, gone, c0, c2, h2)) s (n, gone, c0, c2, h2, c1)
  LEFT JOIN "public"."orders_t" t ON t."nr" = s.c0) x
WHERE there = gone OR there AND coalesce(NULL, c2, c1) IS NOT NULL
ORDER BY n;

-- The keys of the rows that the table has.
SELECT t."nr"::text
FROM (SELECT s.*, (SELECT "cid" FROM "public"."customers_t" weir_1 WHERE "nr" = s.h2) FROM (VALUES
    (0, false, '1'::bigint, '5'::bigint, '7'::bigint),
    (1, false, '2'::bigint, NULL::bigint, NULL::bigint)) s (n, gone, c0, c2, h2)) s (n, gone, c0, c2, h2, c1)
JOIN "public"."orders_t" t ON t."nr" = s.c0;
