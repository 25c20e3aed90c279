-- What a device does by itself about drift, failure and removal, as words; empty means the defaults.
ALTER TABLE deployments ADD COLUMN policy TEXT NOT NULL DEFAULT '';
-- What a change asks for; empty means that everything stays as it is.
ALTER TABLE changes ADD COLUMN policy TEXT NOT NULL DEFAULT '';
