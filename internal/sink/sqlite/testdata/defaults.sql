-- A new row.
--   {"id":1,"v":1,"a":"x"}
--   {"id":1,"v":9,"b":"y"}
SELECT "id", "a", "b", "v" FROM "t" WHERE "id" = ?1;
INSERT INTO "t" AS weir ("id", "a", "b", "v")
  VALUES (?, ?, ?, ?);

-- A delete that is older than b clears a.
--   {"id":1,"v":5,"op":"delete"}
SELECT "id", "a", "b", "v" FROM "t" WHERE "id" = ?1;
INSERT INTO "t" AS weir ("id", "b", "v")
  VALUES (?, ?, ?)
ON CONFLICT ("id") DO UPDATE SET
    "a" = excluded."a"
  WHERE "a" COLLATE BINARY IS NOT excluded."a";
