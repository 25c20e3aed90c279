-- An index over `desired` alone looked better to SQLite than the one by client, so that every batch of the publisher read all
-- deployments that are present. Only those that were removed are ever looked for by age.
DROP INDEX deployments_by_desire;
CREATE INDEX deployments_removed ON deployments (updated_at) WHERE desired = 'absent';
