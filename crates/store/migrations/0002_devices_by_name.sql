-- A device is found by its id alone, whatever its client.
CREATE INDEX devices_by_name ON devices (device_id, client_id);
