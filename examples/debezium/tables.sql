-- Something to mirror, for Postgres and MariaDB.
CREATE TABLE places (id integer PRIMARY KEY, name varchar(50), opened date);
INSERT INTO places VALUES (1, 'Oslo', '2024-02-29'), (2, 'Lodz', NULL);
