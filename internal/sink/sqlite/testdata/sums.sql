-- After 16 new rows, the next ones are inserted at once.
--   {"id":1,"n":1}
--   {"id":2,"n":1}
--   {"id":3,"n":1}
--   …
--   {"id":32,"n":1}
SELECT "id", "n" FROM "t" WHERE "id" = ?1;
INSERT INTO "t" AS weir ("id", "n")
  VALUES (?, ?);
INSERT OR ABORT INTO "t" AS weir ("id", "n")
  VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?);
