-- 16 rows name the same columns.
--   {"id":1,"a":"x","n":1}
--   {"id":2,"a":"x","n":1}
--   {"id":3,"a":"x","n":1}
--   …
--   {"id":16,"a":"x","n":1}
INSERT INTO "t" AS weir ("id", "a", "n")
  VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?)
ON CONFLICT DO UPDATE SET
    "a" = excluded."a",
    "n" = excluded."n"
  WHERE "a" COLLATE BINARY IS NOT excluded."a"
    OR "n" COLLATE BINARY IS NOT excluded."n";

-- Some of these are null.
--   {"id":1,"a":null}
--   {"id":2,"a":null}
--   {"id":3,"a":null}
--   …
--   {"id":16,"a":null}
INSERT INTO "t" AS weir ("id", "a")
  VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?)
ON CONFLICT DO UPDATE SET
    "a" = excluded."a"
  WHERE "a" COLLATE BINARY IS NOT excluded."a";

-- Each row names some columns.
--   {"id":1,"a":"y"}
--   {"id":2,"a":"y"}
--   {"id":3,"a":"y"}
--   …
--   {"id":16,"n":2}
INSERT INTO "t" AS weir ("id", "a", "n")
  VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?)
ON CONFLICT DO UPDATE SET
    "a" = coalesce(excluded."a", "a"),
    "n" = coalesce(excluded."n", "n")
  WHERE excluded."a" IS NOT NULL AND "a" COLLATE BINARY IS NOT excluded."a"
    OR excluded."n" IS NOT NULL AND "n" COLLATE BINARY IS NOT excluded."n";

-- A few rows are looked up.
--   {"id":1,"a":"z"}
--   {"id":2,"a":"y"}
--   {"id":99,"a":"z"}
--   {"id":4,"op":"delete"}
SELECT "id", "a", "n" FROM "t" WHERE "id" = ?1;
UPDATE "t" SET "a" = ?1, "n" = ?2 WHERE "id" = ?3;
DELETE FROM "t" WHERE "id" = ?1;
INSERT INTO "t" AS weir ("id", "a", "n")
  VALUES (?, ?, ?);
