-- As a superuser, in the database that is mirrored. It needs wal_level=logical.
CREATE ROLE debezium LOGIN REPLICATION PASSWORD 'secret';
GRANT SELECT ON ALL TABLES IN SCHEMA public TO debezium;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO debezium; -- tables that this user creates later
CREATE PUBLICATION shop FOR ALL TABLES;
