-- Lists of what failed go by deployment, page by page.
CREATE INDEX statuses_failed_deployments ON statuses (deployment_id) WHERE state = 'failed';
