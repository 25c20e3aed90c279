-- Digests are spread evenly, so every row costs each index over them a page of its own when a fleet is published.
-- What a deployment is made from is in its newest revision as well, which is never removed before the deployment is.
DROP INDEX deployments_by_digest;
