-- A statement names what a message names.
--   {"id":1,"n":1}
--   {"id":2,"a":"x"}
SELECT "id", "a", "n" FROM "t" WHERE "id" = ?1;
INSERT INTO "t" AS weir ("id", "n")
  VALUES (?, ?);
INSERT INTO "t" AS weir ("id", "a")
  VALUES (?, ?);

-- What a row has is not written again.
--   {"id":1,"n":1}
--   {"id":2,"a":"x","n":2}
SELECT "id", "a", "n" FROM "t" WHERE "id" = ?1;
UPDATE "t" SET "n" = ?1 WHERE "id" = ?2;

-- A row starts from nothing.
--   {"id":1,"op":"delete"}
--   {"id":1,"n":3}
SELECT "id", "a", "n" FROM "t" WHERE "id" = ?1;
DELETE FROM "t" WHERE "id" = ?1;
INSERT INTO "t" AS weir ("id", "n")
  VALUES (?, ?);
