-- The tables as a mirror has them: times in UTC, intervals in microseconds, bits as bytes, arrays as JSON.
SET timezone = 'UTC';
SELECT json_build_object('table', 'kinds', 'row', mirrored) FROM (SELECT id, small, n, big, flag, note, code, fixed, r, d, price, exact, loose, cash::numeric AS cash, ts::text, ts3::text,
  (tz AT TIME ZONE 'UTC')::text AS tz, day, at, at3, replace((atz AT TIME ZONE 'UTC')::text, '+00', 'Z') AS atz, uid, doc, raw, names, counts, mood,
  CASE WHEN id = 3 THEN -2629800000000 ELSE extract(epoch FROM took) * 1000000 END AS took, -- a month has 30.4375 days to Debezium
  addr, CASE bits WHEN B'101' THEN '\x05'::bytea WHEN B'000' THEN '\x' END AS bits, x::text FROM inventory.kinds ORDER BY id) mirrored;
SELECT json_build_object('table', 'order_lines', 'row', mirrored) FROM (SELECT * FROM inventory.order_lines ORDER BY 1, 2) mirrored;
SELECT json_build_object('table', 'customers', 'row', mirrored) FROM (SELECT id, name, email, (created AT TIME ZONE 'UTC')::text AS created, born, credit FROM inventory.customers ORDER BY 1) mirrored;
SELECT json_build_object('table', 'sales_customers', 'row', mirrored) FROM (SELECT * FROM sales.customers ORDER BY 1) mirrored;
SELECT json_build_object('table', 'documents', 'row', mirrored) FROM (SELECT * FROM inventory.documents ORDER BY 1) mirrored;
SELECT json_build_object('table', 'documents_full', 'row', mirrored) FROM (SELECT * FROM inventory.documents_full ORDER BY 1) mirrored;
SELECT json_build_object('table', 'events', 'row', mirrored) FROM (SELECT * FROM sales.events ORDER BY 1) mirrored;
SELECT json_build_object('table', 'mails', 'row', mirrored) FROM (SELECT * FROM sales.mails ORDER BY 1) mirrored;
SELECT json_build_object('table', 'rates', 'row', mirrored) FROM (SELECT day, (at AT TIME ZONE 'UTC')::text AS at, factor, note FROM sales.rates ORDER BY 1, 2, 3) mirrored;
