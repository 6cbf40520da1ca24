-- Roles for a historian in PostgreSQL, each with no more than it needs. Run it once as a superuser in the historian's database,
-- before the first start; give the roles passwords (ALTER ROLE … PASSWORD) or another way to log in.
--
--   psql -d historian -f postgres-roles.sql
--
--   holdfast_owner   owns the schema: migrations, refreshes of TimescaleDB's aggregates, removal of chunks (historian.ownerUrl)
--   holdfast_writer  the ingest: reads and writes rows, cannot create, alter, drop or truncate anything (historian.url)
--   holdfast_reader  reports and dashboards: SELECT only

CREATE ROLE holdfast_owner LOGIN;
CREATE ROLE holdfast_writer LOGIN;
CREATE ROLE holdfast_reader LOGIN;

CREATE SCHEMA holdfast AUTHORIZATION holdfast_owner;
GRANT USAGE ON SCHEMA holdfast TO holdfast_writer, holdfast_reader;

-- For every table and view that a migration makes, now and later.
ALTER DEFAULT PRIVILEGES FOR ROLE holdfast_owner IN SCHEMA holdfast
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO holdfast_writer;
ALTER DEFAULT PRIVILEGES FOR ROLE holdfast_owner IN SCHEMA holdfast
  GRANT SELECT ON TABLES TO holdfast_reader;
