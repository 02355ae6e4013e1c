-- The mirror: the tables of shop are in public, the tables of MariaDB's database depot in the schema depot.
CREATE DATABASE mirror;
\connect mirror
CREATE SCHEMA depot;
