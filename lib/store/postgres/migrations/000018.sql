-- What the runs of a thread have stored, for the limits of its user; of runs before this it is not known, and counts as nothing.
ALTER TABLE threads_meta ADD COLUMN stored_bytes bigint NOT NULL DEFAULT 0;
CREATE INDEX ix_threads_user_bytes ON threads_meta (user_id, stored_bytes) WHERE is_temporary = 0;
CREATE INDEX ix_jobs_webhooks ON jobs (user_id) WHERE kind = 'webhook';
