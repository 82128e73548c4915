-- Lengths are checked where texts come in, by characters, and the same for every backend. Here a text that has to be escaped is longer
-- than what was given, and a limit of this database alone would refuse what others keep.
ALTER TABLE threads_meta ALTER COLUMN assistant_id TYPE text, ALTER COLUMN display_name TYPE text;
ALTER TABLE runs ALTER COLUMN assistant_id TYPE text, ALTER COLUMN model_name TYPE text,
  ALTER COLUMN idempotency_key TYPE text COLLATE "C";
ALTER TABLE api_tokens ALTER COLUMN name TYPE text;
ALTER TABLE users ALTER COLUMN password_hash TYPE text, ALTER COLUMN oauth_provider TYPE text COLLATE "C",
  ALTER COLUMN oauth_id TYPE text COLLATE "C";
