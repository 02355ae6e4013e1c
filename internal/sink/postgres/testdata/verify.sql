-- Each row, as the feed has it and as the table has it.
SELECT s.n, t.ctid IS NOT NULL, s.c0::text, t."nr"::text, s.c2::text, t."total"::text, s.c1::text, t."customer_id"::text
FROM (SELECT s.*, (SELECT "cid" FROM "public"."customers_t" weir_1 WHERE "nr" = s.h2) FROM (VALUES
    (0, '1'::bigint, '5'::bigint, '7'::bigint),
    (1, '2'::bigint, NULL::bigint, NULL::bigint)) s (n, c0, c2, h2)) s (n, c0, c2, h2, c1)
LEFT JOIN "public"."orders_t" t ON t."nr" = s.c0
ORDER BY s.n;

-- The keys of the table.
SELECT to_json(t."nr")::text, t."nr"::text
FROM "public"."orders_t" t
ORDER BY t."nr"::text;
