-- Whether the agent of a device says that it only pretends to run workloads; told of the deployments on it, a page at a time,
-- without reading all that the devices of the page report.
ALTER TABLE devices ADD COLUMN simulated BIGINT NOT NULL DEFAULT 0;
