-- The manifest version that first had what is wanted now. `target_version` is above it once the client was told the same again.
ALTER TABLE deployments ADD COLUMN changed_version BIGINT NOT NULL DEFAULT 0;
UPDATE deployments SET changed_version = target_version;
UPDATE deployments SET changed_version = (
    SELECT r.manifest_version FROM deployment_revisions r
    WHERE r.deployment_id = deployments.id AND r.revision = deployments.revision
) WHERE EXISTS (
    SELECT 1 FROM deployment_revisions r
    WHERE r.deployment_id = deployments.id AND r.revision = deployments.revision
      AND r.manifest_version < deployments.target_version
);
