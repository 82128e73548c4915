-- What 7 did, of the columns that were made or forgotten since: a text that has to be escaped is longer than what was given, and lengths
-- are checked where texts come in.
ALTER TABLE runs ALTER COLUMN follow_up_to_run_id TYPE text COLLATE "C";
ALTER TABLE aliases ALTER COLUMN text TYPE text COLLATE "C";
ALTER TABLE provider_sessions ALTER COLUMN subject TYPE text COLLATE "C", ALTER COLUMN sid TYPE text COLLATE "C";
ALTER TABLE audit ALTER COLUMN target TYPE text COLLATE "C";
