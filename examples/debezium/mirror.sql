-- The mirror: public is for the tables of shop, the schema depot for those of MariaDB's database depot.
CREATE DATABASE mirror;
\connect mirror
CREATE SCHEMA depot;
