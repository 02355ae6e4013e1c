CREATE SCHEMA inventory; CREATE SCHEMA sales;
CREATE TYPE inventory.mood AS ENUM ('calm', 'busy');
-- One of every type, with the replica identity DEFAULT.
CREATE TABLE inventory.kinds (
  id bigint PRIMARY KEY, small smallint, n integer, big bigint, flag boolean, note text, code varchar(20), fixed char(5), r real, d double precision,
  price numeric(12,2), exact numeric(38,10), loose numeric, cash money, ts timestamp, ts3 timestamp(3), tz timestamptz, day date, at time, at3 time(3), atz timetz,
  uid uuid, doc jsonb, raw bytea, names text[], counts integer[], mood inventory.mood, took interval, addr inet, bits bit(3), x xml);
-- A key of two columns, and the replica identity FULL.
CREATE TABLE inventory.order_lines (order_id integer, line_no smallint, sku text NOT NULL, qty numeric(6,2), PRIMARY KEY (order_id, line_no));
ALTER TABLE inventory.order_lines REPLICA IDENTITY FULL;
-- Two tables of one name.
CREATE TABLE inventory.customers (id integer PRIMARY KEY, name text NOT NULL, email text UNIQUE, created timestamptz);
CREATE TABLE sales.customers (code text PRIMARY KEY, name text, rating double precision);
-- Values that are stored out of line.
CREATE TABLE inventory.documents (id uuid PRIMARY KEY, title text, body text, parts text[], meta jsonb, blob bytea);
ALTER TABLE inventory.documents ALTER body SET STORAGE EXTERNAL, ALTER parts SET STORAGE EXTERNAL, ALTER meta SET STORAGE EXTERNAL, ALTER blob SET STORAGE EXTERNAL;
CREATE TABLE inventory.documents_full (LIKE inventory.documents INCLUDING ALL);
ALTER TABLE inventory.documents_full REPLICA IDENTITY FULL;
CREATE TABLE sales.events (id integer PRIMARY KEY, what text);
-- Keys of types that have several spellings.
CREATE TABLE sales.rates (day date, at timestamptz, factor numeric(6,3), note text, PRIMARY KEY (day, at, factor));
-- Columns with the names of a message's parts.
CREATE TABLE sales.mails (id integer PRIMARY KEY, payload numeric, schema text, op text, before text);
INSERT INTO sales.rates VALUES ('2020-02-29', '2020-02-29 12:00:00.5Z', 1.250, 'a'), ('2020-03-01', '2020-02-29 12:00:00Z', -0.5, 'b');
INSERT INTO sales.mails VALUES (1, 1.5, 's', 'd', 'b');
INSERT INTO inventory.kinds VALUES
 (1, -32768, 2147483647, 9007199254740993, true, 'zwölf "Boxen"' || chr(10), 'A-1', 'ab', 1.5, 0.1, 1234567890.12, 1234567890123456789012345678.0123456789, 3.14159265358979323846, '$12.34',
  '2020-05-15 13:30:00.123456', '2020-05-15 13:30:00.5', '2020-05-15 13:30:00.123456+02', '2020-02-29', '13:30:00.000001', '13:30:00.5', '13:30:00+02',
  '0b0e6c5a-6f5c-4d0b-9a4b-0d0f3a1b2c3d', '{"a": [1, null, "x"], "b": {"c": 1.50}}', '\x00ff10', '{a,NULL,"c,d"}', '{1,-2}', 'busy', '1 day 02:03:04.5', '10.0.0.1', B'101', '<a>1</a>'),
 (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (3, 0, 0, -1, false, '', '', '', -1e-30, 1e300, -0.01, -0.0000000001, 0, '-$0.50',
  '1969-12-31 23:59:59.999999', '1900-01-01 00:00:00', '1969-07-20 20:17:40Z', '0001-01-01', '00:00:00', '23:59:59.999', '00:00:00-08',
  '00000000-0000-0000-0000-000000000000', '[]', '', '{}', '{}', 'calm', '-1 mons', '::1/64', B'000', '<b/>');
INSERT INTO inventory.customers SELECT i, 'customer ' || i, 'c' || i || '@example.com', timestamptz '2021-01-01Z' + i * interval '1 hour 1.001 s' FROM generate_series(1, 8) i;
INSERT INTO sales.customers VALUES ('DE-1', 'Ärzte', 4.5), ('US-1', NULL, NULL);
INSERT INTO inventory.order_lines SELECT 1 + i / 3, i % 3, 'sku' || i, i * 1.25 FROM generate_series(0, 8) i;
INSERT INTO inventory.documents SELECT ('00000000-0000-4000-8000-00000000000' || i)::uuid, 'title ' || i, repeat(chr(96 + i) || '-text ', 1300), ARRAY[repeat('p' || i, 4100), NULL], jsonb_build_object('k', repeat('j' || i, 4100)), decode(repeat('0' || i, 8200), 'hex') FROM generate_series(1, 3) i;
INSERT INTO inventory.documents_full SELECT * FROM inventory.documents;
INSERT INTO sales.events VALUES (1, 'before'), (2, 'before');
