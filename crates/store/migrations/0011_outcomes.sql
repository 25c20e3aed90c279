-- How far targets of a change were when a later change took them over, or when they were forgotten after their removal, counted
-- by convergence: a deployment itself tells only how it is with the newest change.
CREATE TABLE change_outcomes (
    change_id TEXT NOT NULL,
    convergence TEXT NOT NULL,
    targets BIGINT NOT NULL,
    PRIMARY KEY (change_id, convergence)
);
