-- How a deployment last failed: kept while its device tries again, gone once something succeeds.
ALTER TABLE statuses ADD COLUMN failed_version BIGINT;
ALTER TABLE statuses ADD COLUMN failed_body BYTEA;
ALTER TABLE statuses ADD COLUMN failed_at BIGINT;
UPDATE statuses SET failed_version = adopted_version, failed_body = body, failed_at = received_at
WHERE state = 'failed' AND adopted_version <> 0;

-- In place of those by state, which follow every attempt.
DROP INDEX statuses_failed;
DROP INDEX statuses_failed_deployments;
CREATE INDEX statuses_unsuccessful ON statuses (client_id) WHERE failed_version IS NOT NULL;
CREATE INDEX statuses_unsuccessful_deployments ON statuses (deployment_id) WHERE failed_version IS NOT NULL;
